//! The daemon's log on standard error: text for people, or JSON for programs. No thread waits for its reader
//! ([`stderr_queue`]).

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::stderr_queue;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level and message; coloured on a terminal
    Text,
    /// One JSON object a line: timestamp, level, target, fields (fields.message is the text)
    Json,
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into())
}

/// What writes the log of the process to `writer`.
fn subscriber<W>(format: LogFormat, filter: EnvFilter, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A line that cannot be written is lost. To say so on the standard error, which is where it was to be
    // written, is a panic.
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Text => Box::new(log.with_target(false).with_ansi(io::stderr().is_terminal()).finish()),
        LogFormat::Json => Box::new(log.json().with_current_span(false).with_span_list(false).finish()),
    }
}

/// Begins to log; once in a process.
pub(super) fn begin(format: LogFormat) -> anyhow::Result<()> {
    stderr_queue::begin(|lines| {
        tracing::warn!(
            "{lines} lines of the log are lost: standard error did not take them; see masu events"
        );
    })?;
    tracing::subscriber::set_global_default(subscriber(format, filter(), || Lines))?;
    Ok(())
}

/// Takes a line of the log at a time.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        stderr_queue::put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines of two messages, the second of which has two lines.
    fn lines(format: LogFormat) -> Vec<String> {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = subscriber(format, "info".into(), move || writer.clone());
        tracing::subscriber::with_default(log, || {
            tracing::debug!("left out");
            tracing::info!("serving \"a\"");
            tracing::error!(drive = "d0", "failed\nagain");
        });
        let text = String::from_utf8(kept.0.lock().expect("not poisoned").clone()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn json_is_one_object_a_line_and_text_is_for_people() {
        let json: Vec<serde_json::Value> = lines(LogFormat::Json)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
            .collect();
        assert_eq!(json.len(), 2);
        assert_eq!(json[0]["fields"]["message"], "serving \"a\"");
        assert_eq!(json[1]["fields"]["message"], "failed\nagain");
        assert_eq!(json[1]["fields"]["drive"], "d0");
        assert_eq!([&json[0]["level"], &json[1]["level"]], ["INFO", "ERROR"]);
        for line in &json {
            assert_eq!(line["target"], "masu::daemon::log::tests");
            let time = line["timestamp"].as_str().expect("a time");
            assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        }
        let text = lines(LogFormat::Text);
        assert!(text[0].ends_with("INFO serving \"a\""), "{text:?}");
    }
}
