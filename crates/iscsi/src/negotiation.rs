//! The negotiation of operational keys (RFC 7143 6.2 and clause 13), for both sides: text in, parameters and
//! text out.

use crate::keys::{self, Key, RECV_SEGMENT_LEN_DEFAULT, Rule};
use crate::text::{Text, number};

/// The digests that a side accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digests {
    /// None only.
    Never,
    /// CRC32C or none; as an initiator, none is preferred.
    Allowed,
    /// CRC32C or none; as an initiator, CRC32C is preferred.
    Preferred,
    /// CRC32C only.
    Required,
}

impl Digests {
    fn list(self) -> &'static str {
        match self {
            Digests::Never => "None",
            Digests::Allowed => "None,CRC32C",
            Digests::Preferred => "CRC32C,None",
            Digests::Required => "CRC32C",
        }
    }

    /// Whether the value is acceptable, and its meaning.
    fn judge(self, value: &str) -> Option<bool> {
        match value {
            "CRC32C" if self != Digests::Never => Some(true),
            "None" if self != Digests::Required => Some(false),
            _ => None,
        }
    }
}

/// The offer of one side.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Offer {
    pub header_digest: Digests,
    pub data_digest: Digests,
    /// InitialR2T: `true` requires R2T for all data except immediate data.
    pub initial_r2t: bool,
    pub immediate_data: bool,
    /// This side's MaxRecvDataSegmentLength.
    pub recv_segment_len_max: u32,
    /// MaxBurstLength.
    pub max_burst_len: u32,
    /// FirstBurstLength.
    pub first_burst_len: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u32,
    /// DefaultTime2Wait in seconds.
    pub time2wait_s: u32,
    /// DefaultTime2Retain in seconds.
    pub time2retain_s: u32,
}

/// The negotiated parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// Whether only immediate data may be unsolicited.
    pub initial_r2t: bool,
    /// Whether a command may have immediate data.
    pub immediate_data: bool,
    /// Maximum data segment that this side accepts.
    pub recv_segment_len_max: u32,
    /// Maximum data segment that the other side accepts.
    pub send_segment_len_max: u32,
    /// Maximum sequence of data PDUs.
    pub max_burst_len: u32,
    /// Maximum unsolicited data of a command.
    pub first_burst_len: u32,
    /// Concurrent R2Ts of one command.
    pub max_outstanding_r2t: u32,
    /// DefaultTime2Wait in seconds.
    pub time2wait_s: u32,
    /// DefaultTime2Retain in seconds.
    pub time2retain_s: u32,
}

/// Why a negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum NegotiationError {
    /// A repeated key (6.2: once per negotiation).
    #[error("repeated key {0}")]
    Twice(String),
    /// A key from the wrong side or in the wrong phase.
    #[error("key {0} is not allowed here")]
    Misplaced(String),
    /// A MaxBurstLength below a FirstBurstLength that was negotiated before (13.14 forbids it).
    #[error("MaxBurstLength={max} is below the negotiated FirstBurstLength={first}")]
    FirstBurst {
        /// FirstBurstLength.
        first: u32,
        /// MaxBurstLength.
        max: u32,
    },
    /// The response to a key violates the key's rule.
    #[error("invalid response {key}={value} to the offer")]
    BadAnswer { key: String, value: String },
}

/// The negotiation state of one side.
#[derive(Clone, Debug)]
pub(crate) struct Negotiation {
    offer: Offer,
    params: Params,
    is_discovery: bool,
    is_full_feature: bool,
    seen: Vec<&'static str>,
    declared: bool,
}

impl Negotiation {
    /// Begins with the standard's defaults (clause 13).
    pub(crate) fn new(offer: Offer) -> Negotiation {
        let params = Params {
            header_digest: false,
            data_digest: false,
            initial_r2t: true,
            immediate_data: true,
            recv_segment_len_max: RECV_SEGMENT_LEN_DEFAULT,
            send_segment_len_max: RECV_SEGMENT_LEN_DEFAULT,
            max_burst_len: 262_144,
            first_burst_len: 65_536,
            max_outstanding_r2t: 1,
            time2wait_s: 2,
            time2retain_s: 20,
        };
        Negotiation {
            offer,
            params,
            is_discovery: false,
            is_full_feature: false,
            seen: Vec::new(),
            declared: false,
        }
    }

    /// Continues in the full feature phase with the parameters of the login.
    pub(crate) fn resume(offer: Offer, params: Params) -> Negotiation {
        Negotiation { params, is_full_feature: true, declared: true, ..Negotiation::new(offer) }
    }

    pub(crate) fn set_discovery(&mut self) {
        self.is_discovery = true;
    }

    /// Begins a new text exchange: each key may occur once more.
    pub(crate) fn begin_exchange(&mut self) {
        self.seen.clear();
    }

    /// The parameters so far, made consistent: the first burst never exceeds a burst (13.14).
    pub(crate) fn params(&self) -> Params {
        let p = self.params;
        Params { first_burst_len: p.first_burst_len.min(p.max_burst_len), ..p }
    }

    fn see(&mut self, key: &'static Key) -> Result<(), NegotiationError> {
        if self.seen.contains(&key.name) {
            return Err(NegotiationError::Twice(key.name.into()));
        }
        if self.is_full_feature && !key.full_feature {
            return Err(NegotiationError::Misplaced(key.name.into()));
        }
        self.seen.push(key.name);
        Ok(())
    }

    /// The target's part for one complete text: processes the initiator's offers and declarations, and
    /// appends the responses. FirstBurstLength depends on MaxBurstLength (13.14) and is answered last,
    /// wherever it stands in the text.
    pub(crate) fn answer_all<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        out: &mut Text,
    ) -> Result<(), NegotiationError> {
        let is_last = |key: &str| key == "FirstBurstLength";
        let (first, last) = (pairs.clone().filter(|(k, _)| !is_last(k)), pairs.filter(|(k, _)| is_last(k)));
        first.chain(last).try_for_each(|(key, value)| self.answer(key, value, out))
    }

    /// The target's part for one pair.
    pub(crate) fn answer(&mut self, name: &str, value: &str, out: &mut Text) -> Result<(), NegotiationError> {
        let Some(key) = keys::find(name) else {
            // A response without an offer gets no response (6.2).
            if !matches!(value, "NotUnderstood" | "Reject" | "Irrelevant") {
                out.put(name, "NotUnderstood");
            }
            return Ok(());
        };
        self.see(key)?;
        if self.is_discovery && key.normal_only {
            out.put(name, "Irrelevant");
            return Ok(());
        }
        let refused = |out: &mut Text| out.put(name, "Reject");
        match key.rule {
            Rule::Text => {}
            Rule::OneWay => return Err(NegotiationError::Misplaced(name.into())),
            Rule::Marker => out.put(name, "No"),
            Rule::MarkerInterval => refused(out),
            Rule::OnlyOf(only) => match value.split(',').any(|v| v == only) {
                true => out.put(name, only),
                false => refused(out),
            },
            Rule::Digests => {
                let mine =
                    if name == "HeaderDigest" { self.offer.header_digest } else { self.offer.data_digest };
                match value.split(',').find_map(|v| mine.judge(v).map(|on| (v, on))) {
                    Some((chosen, on)) => {
                        out.put(name, chosen);
                        self.set_digest(name, on);
                    }
                    None => refused(out),
                }
            }
            Rule::And | Rule::Or => match value {
                "Yes" | "No" => {
                    let (theirs, mine) = (value == "Yes", self.my_bool(name));
                    let result = if key.rule == Rule::And { theirs && mine } else { theirs || mine };
                    out.put(name, if result { "Yes" } else { "No" });
                    self.set_bool(name, result);
                }
                _ => refused(out),
            },
            Rule::Min { low, high } | Rule::Max { low, high } => match number(value) {
                Some(theirs) if (low..=high).contains(&theirs) => {
                    let mine = self.bounded_by_max_burst(name, theirs)?;
                    let result = if matches!(key.rule, Rule::Min { .. }) {
                        theirs.min(mine)
                    } else {
                        theirs.max(mine)
                    };
                    out.put(name, &result.to_string());
                    self.set_number(name, result);
                }
                _ => refused(out),
            },
            Rule::Declared { low, high } => match number(value) {
                Some(n) if (low..=high).contains(&n) => self.params.send_segment_len_max = n,
                _ => refused(out),
            },
        }
        Ok(())
    }

    /// This side's number for a key, by 13.14: FirstBurstLength never exceeds MaxBurstLength, in either order
    /// of negotiation.
    fn bounded_by_max_burst(&self, name: &str, theirs: u32) -> Result<u32, NegotiationError> {
        let mine = self.my_number(name);
        let (first, max) = (self.params.first_burst_len, theirs.min(mine));
        match name {
            "FirstBurstLength" => Ok(mine.min(self.params.max_burst_len)),
            "MaxBurstLength" if self.seen.contains(&"FirstBurstLength") && first > max => {
                Err(NegotiationError::FirstBurst { first, max })
            }
            _ => Ok(mine),
        }
    }

    /// Declares this side's MaxRecvDataSegmentLength, once.
    pub(crate) fn declare(&mut self, out: &mut Text) {
        if !self.declared {
            self.declared = true;
            self.params.recv_segment_len_max = self.offer.recv_segment_len_max;
            out.put("MaxRecvDataSegmentLength", &self.offer.recv_segment_len_max.to_string());
        }
    }

    /// The initiator's part: offers every key.
    pub(crate) fn propose(&mut self, out: &mut Text) {
        self.declare(out);
        let offer = self.offer;
        out.put("HeaderDigest", offer.header_digest.list());
        out.put("DataDigest", offer.data_digest.list());
        for key in keys::KEYS {
            if self.is_discovery && key.normal_only || key.name == "iSCSIProtocolLevel" {
                continue;
            }
            match key.rule {
                Rule::And | Rule::Or => out.put(key.name, if self.my_bool(key.name) { "Yes" } else { "No" }),
                Rule::Min { .. } | Rule::Max { .. } => {
                    let mine = self.my_number(key.name);
                    let is_first_burst = key.name == "FirstBurstLength";
                    let most = if is_first_burst { offer.max_burst_len } else { u32::MAX };
                    out.put(key.name, &mine.min(most).to_string())
                }
                _ => {}
            }
        }
    }

    /// The initiator's part: processes the target's response, or its declaration.
    pub(crate) fn accept(&mut self, name: &str, value: &str) -> Result<(), NegotiationError> {
        let bad = || NegotiationError::BadAnswer { key: name.into(), value: value.into() };
        let Some(key) = keys::find(name) else { return Ok(()) };
        self.see(key)?;
        match (key.rule, value) {
            (Rule::Digests, _) => {
                let mine =
                    if name == "HeaderDigest" { self.offer.header_digest } else { self.offer.data_digest };
                let on = mine.judge(value).ok_or_else(bad)?;
                self.set_digest(name, on);
            }
            // The key's default stays.
            (_, "NotUnderstood" | "Irrelevant" | "Reject") => {}
            (Rule::And | Rule::Or, _) => {
                let (result, mine) = (value == "Yes", self.my_bool(name));
                let possible = if key.rule == Rule::And { mine || !result } else { result || !mine };
                if !matches!(value, "Yes" | "No") || !possible {
                    return Err(bad());
                }
                self.set_bool(name, result);
            }
            (Rule::Min { low, .. }, _) => {
                let n = number(value).filter(|n| (low..=self.my_number(name)).contains(n)).ok_or_else(bad)?;
                self.set_number(name, n);
            }
            (Rule::Max { high, .. }, _) => {
                let n =
                    number(value).filter(|n| (self.my_number(name)..=high).contains(n)).ok_or_else(bad)?;
                self.set_number(name, n);
            }
            (Rule::Declared { low, high }, _) => {
                let n = number(value).filter(|n| (low..=high).contains(n)).ok_or_else(bad)?;
                self.params.send_segment_len_max = n;
            }
            _ => {}
        }
        Ok(())
    }

    fn set_digest(&mut self, name: &str, on: bool) {
        if name == "HeaderDigest" {
            self.params.header_digest = on;
        } else {
            self.params.data_digest = on;
        }
    }

    fn my_bool(&self, name: &str) -> bool {
        match name {
            "InitialR2T" => self.offer.initial_r2t,
            "ImmediateData" => self.offer.immediate_data,
            // Data in order, within and between sequences: error recovery level 0 gains nothing from another
            // order.
            _ => true,
        }
    }

    fn set_bool(&mut self, name: &str, value: bool) {
        match name {
            "InitialR2T" => self.params.initial_r2t = value,
            "ImmediateData" => self.params.immediate_data = value,
            _ => {}
        }
    }

    fn my_number(&self, name: &str) -> u32 {
        let o = &self.offer;
        match name {
            "MaxBurstLength" => o.max_burst_len,
            "FirstBurstLength" => o.first_burst_len,
            "MaxOutstandingR2T" => o.max_outstanding_r2t,
            "DefaultTime2Wait" => o.time2wait_s,
            "DefaultTime2Retain" => o.time2retain_s,
            "ErrorRecoveryLevel" => 0,
            // MaxConnections, iSCSIProtocolLevel.
            _ => 1,
        }
    }

    fn set_number(&mut self, name: &str, value: u32) {
        let p = &mut self.params;
        match name {
            "MaxBurstLength" => p.max_burst_len = value,
            "FirstBurstLength" => p.first_burst_len = value,
            "MaxOutstandingR2T" => p.max_outstanding_r2t = value,
            "DefaultTime2Wait" => p.time2wait_s = value,
            "DefaultTime2Retain" => p.time2retain_s = value,
            // MaxConnections, ErrorRecoveryLevel and iSCSIProtocolLevel have only these possible results.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
