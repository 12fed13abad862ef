//! The operational keys of RFC 7143 clause 13 and their rules, as one table.
//!
//! Security keys (`AuthMethod`, `CHAP_*`, clause 12) belong to the security stage of login and are not in the
//! table.

/// The rule of a key's negotiation (6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A list of digests in order of preference: the first that both sides support.
    Digests,
    /// A list, of which only this value is supported.
    OnlyOf(&'static str),
    /// Yes or No: Yes if both say Yes.
    And,
    /// Yes or No: Yes if either says Yes.
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
    /// A number that the sender declares, without a response.
    Declared {
        /// The lowest value allowed.
        low: u32,
        /// The highest value allowed.
        high: u32,
    },
    /// Text that the sender declares (names, aliases), without a response.
    Text,
    /// Sent by targets only, or part of a text exchange: an error if an initiator sends it in a negotiation.
    OneWay,
    /// A marker switch, obsolete: the response is No (13.25).
    Marker,
    /// A marker interval, obsolete: the response is Reject (13.25).
    MarkerInterval,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Key {
    /// The key.
    pub name: &'static str,
    pub rule: Rule,
    /// Whether it is irrelevant in a discovery session (the response is Irrelevant).
    pub normal_only: bool,
    /// Whether it is allowed in the full feature phase.
    pub full_feature: bool,
}

/// Lowest and highest segment and burst lengths (13.12 to 13.14).
const LEN_LOW: u32 = 512;
const LEN_HIGH: u32 = (1 << 24) - 1;
/// The MaxRecvDataSegmentLength of a side that declares none (13.12), and of both sides during login.
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
    // RFC 7143 13.23; the other methods need fences, which error recovery level 0 does not use.
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
