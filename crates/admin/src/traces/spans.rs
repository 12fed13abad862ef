//! Traces as spans of OpenTelemetry. Attributes have the names of its semantic conventions where there is
//! one (`error.type`, `disk.io.direction`, `system.device`), else they begin with `masu.`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use array::{CommandTrace, Config, Instant, Recorded, ScsiStatus, SpanRecord, Traced};

use super::messages::{
    AnyValue, ExportTraceServiceRequest, FLAG_SAMPLED, InstrumentationScope, KIND_INTERNAL, KIND_SERVER,
    KeyValue, Resource, ResourceSpans, STATUS_ERROR, ScopeSpans, Span, Status,
};

/// The time of day at a time of the world's clock.
pub type TimeOfDay = fn(Instant) -> SystemTime;

/// Random numbers of a trace: its identity, and a number for its spans.
pub(super) type Ids = ([u8; 16], u64);

/// A request with these traces.
pub(super) fn request(config: &Config, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let attributes = vec![
        text("service.name", "masu"),
        text("service.version", version),
        text("service.instance.id", &config.id.to_string()),
        text("masu.target", &config.target),
    ];
    let scope = InstrumentationScope { name: "masu.commands".into(), version: version.into() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource = Some(Resource { attributes });
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}

/// The spans of a trace: that of the command first.
pub(super) fn spans_of(traced: &Traced, (trace_id, number): Ids, time_of_day: TimeOfDay) -> Vec<Span> {
    let command = &traced.command;
    let clock = Clock::of(command, time_of_day);
    let id = |index: usize| span_id(number, index);
    let mut root = Span {
        trace_id: trace_id.to_vec(),
        span_id: id(0),
        parent_span_id: Vec::new(),
        name: command.name().map_or_else(|| format!("opcode {:02X}h", command.cdb[0]), str::to_owned),
        kind: KIND_SERVER,
        start_time_unix_nano: clock.at(command.began),
        end_time_unix_nano: clock.at(command.ended),
        attributes: attributes_of(traced),
        status: None,
        flags: FLAG_SAMPLED,
    };
    if let Some(error) = error_of(command) {
        root.attributes.push(text("error.type", &error));
        root.status = Some(Status { message: error, code: STATUS_ERROR });
    }
    let Recorded { spans: stages, .. } = &command.stages;
    let child = |(index, stage): (usize, &SpanRecord)| Span {
        trace_id: trace_id.to_vec(),
        span_id: id(index + 1),
        parent_span_id: id(stage.parent.map_or(0, |parent| usize::from(parent) + 1)),
        name: stage.stage.into(),
        kind: KIND_INTERNAL,
        start_time_unix_nano: clock.at(stage.began),
        end_time_unix_nano: clock.at(stage.ended.unwrap_or(command.ended)),
        attributes: match (stage.stage, stage.object.as_str()) {
            (_, "") => Vec::new(),
            ("drive", drive) => vec![text("system.device", drive)],
            (_, object) => vec![text("masu.object", object)],
        },
        status: None,
        flags: FLAG_SAMPLED,
    };
    let children = stages.iter().enumerate().map(child);
    [root].into_iter().chain(children).collect()
}

/// Never 0, which no span may have.
fn span_id(number: u64, index: usize) -> Vec<u8> {
    ((number >> 1 | 1 << 62) + index as u64).to_be_bytes().to_vec()
}

/// The times of one trace, from one look at the time of day: they have the order and the distances of the
/// world's clock.
struct Clock {
    began: Instant,
    began_unix_ns: u64,
}

impl Clock {
    fn of(command: &CommandTrace, time_of_day: TimeOfDay) -> Clock {
        let began = command.began;
        let since = time_of_day(began).duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { began, began_unix_ns: nanos(since) }
    }

    fn at(&self, time: Instant) -> u64 {
        self.began_unix_ns.saturating_add(nanos(time.since(self.began)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn attributes_of(traced: &Traced) -> Vec<KeyValue> {
    let (command, config) = (&traced.command, &traced.config);
    let mut all = vec![
        text("masu.initiator", &command.initiator),
        text("masu.port", &command.port),
        number("masu.controller", traced.controller as u64),
        text("masu.scsi.status", &command.status.to_string()),
    ];
    let host = config.host_of(&command.initiator);
    all.extend(host.map(|host| text("masu.host", &host.name)));
    if let Some(lun) = command.lun {
        all.push(number("masu.lun", lun.0.into()));
        let volume = host.and_then(|host| host.luns.get(&lun.0));
        all.extend(volume.map(|volume| text("masu.volume", volume)));
    }
    if let Some((lba, blocks)) = command.blocks() {
        all.push(number("masu.lba", lba));
        all.push(number("masu.blocks", blocks));
        all.push(number("masu.bytes", blocks.saturating_mul(command.block_bytes.into())));
    }
    all.extend(command.direction().map(|direction| text("disk.io.direction", direction)));
    if command.stages.left_out > 0 {
        all.push(number("masu.spans_left_out", command.stages.left_out.into()));
    }
    all
}

/// Why a command failed: its status, and its sense data as the standards list them.
fn error_of(command: &CommandTrace) -> Option<String> {
    let status = command.status;
    (status != ScsiStatus::Good).then(|| match command.sense {
        Some((key, code, qualifier)) => format!("{status} {key:X}h/{code:02X}h/{qualifier:02X}h"),
        None => status.to_string(),
    })
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { string: Some(value.into()), int: None }) }
}

fn number(key: &str, value: u64) -> KeyValue {
    let int = Some(i64::try_from(value).unwrap_or(i64::MAX));
    KeyValue { key: key.into(), value: Some(AnyValue { string: None, int }) }
}
