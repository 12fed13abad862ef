//! The operational keys of RFC 7143 clause 13, each with its rule, as one table.
//!
//! Security keys (`AuthMethod`, `CHAP_*`, clause 12) belong to the login's security stage and are not here.

/// How a key's outcome is found (6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A list of digests in the order of preference: the first one that both can.
    Digests,
    /// A list, of which only this value is supported.
    OnlyOf(&'static str),
    /// Yes or No: Yes when both say Yes.
    And,
    /// Yes or No: Yes when either says Yes.
    Or,
    /// The smaller number.
    Min {
        /// The lowest value allowed.
        low: u32,
        /// The highest value allowed.
        high: u32,
    },
    /// The larger number.
    Max {
        /// The lowest value allowed.
        low: u32,
        /// The highest value allowed.
        high: u32,
    },
    /// A number that its sender declares; nobody answers.
    Declared {
        /// The lowest value allowed.
        low: u32,
        /// The highest value allowed.
        high: u32,
    },
    /// Text that its sender declares (names, aliases); nobody answers.
    Text,
    /// Only a target sends it, or it belongs to a text exchange: from the other side in a negotiation it is wrong.
    OneWay,
    /// A marker switch, obsolete: answered No (13.25).
    Marker,
    /// A marker interval, obsolete: answered Reject (13.25).
    MarkerInterval,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// How its outcome is found.
    pub rule: Rule,
    /// Whether it means nothing in a discovery session and is answered Irrelevant there.
    pub normal_only: bool,
    /// Whether it may come in the full feature phase.
    pub full_feature: bool,
}

/// Lowest and highest segment and burst lengths (13.12 to 13.14).
const LEN_LOW: u32 = 512;
const LEN_HIGH: u32 = (1 << 24) - 1;
/// The MaxRecvDataSegmentLength of a side that declares none (13.12), and of everybody during login.
pub const RECV_SEGMENT_LEN_DEFAULT: u32 = 8192;

const fn key(name: &'static str, rule: Rule) -> Key {
    Key { name, rule, normal_only: false, full_feature: false }
}

const fn normal(name: &'static str, rule: Rule) -> Key {
    Key { name, rule, normal_only: true, full_feature: false }
}

const fn always(name: &'static str, rule: Rule) -> Key {
    Key { name, rule, normal_only: false, full_feature: true }
}

/// Every operational key, in the order of clause 13.
pub const KEYS: [Key; 29] = [
    key("HeaderDigest", Rule::Digests),
    key("DataDigest", Rule::Digests),
    normal("MaxConnections", Rule::Min { low: 1, high: 65_535 }),
    Key { name: "SendTargets", rule: Rule::OneWay, normal_only: false, full_feature: true },
    key("TargetName", Rule::Text),
    key("InitiatorName", Rule::Text),
    always("TargetAlias", Rule::OneWay),
    always("InitiatorAlias", Rule::Text),
    always("TargetAddress", Rule::OneWay),
    key("TargetPortalGroupTag", Rule::OneWay),
    normal("InitialR2T", Rule::Or),
    normal("ImmediateData", Rule::And),
    always("MaxRecvDataSegmentLength", Rule::Declared { low: LEN_LOW, high: LEN_HIGH }),
    normal("MaxBurstLength", Rule::Min { low: LEN_LOW, high: LEN_HIGH }),
    normal("FirstBurstLength", Rule::Min { low: LEN_LOW, high: LEN_HIGH }),
    key("DefaultTime2Wait", Rule::Max { low: 0, high: 3600 }),
    key("DefaultTime2Retain", Rule::Min { low: 0, high: 3600 }),
    normal("MaxOutstandingR2T", Rule::Min { low: 1, high: 65_535 }),
    normal("DataPDUInOrder", Rule::Or),
    normal("DataSequenceInOrder", Rule::Or),
    key("ErrorRecoveryLevel", Rule::Min { low: 0, high: 2 }),
    key("SessionType", Rule::Text),
    // RFC 7143 13.23; the other methods need fences that error recovery level 0 has no use for.
    normal("TaskReporting", Rule::OnlyOf("RFC3720")),
    // RFC 7144 3.1: level 1 is RFC 7143; the smaller level wins.
    normal("iSCSIProtocolLevel", Rule::Min { low: 0, high: 31 }),
    key("NodeArchitecture", Rule::Text),
    key("IFMarker", Rule::Marker),
    key("OFMarker", Rule::Marker),
    key("IFMarkInt", Rule::MarkerInterval),
    key("OFMarkInt", Rule::MarkerInterval),
];

/// The row of a key.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name)
}
