//! Traces in each format, and texts that are none.

use super::fit;
use super::trace::{Arrival, TraceRequest, parse};
use world::Rng;
use world_model::drives::Kind;

fn request(
    kind: Kind,
    block: u64,
    blocks: u64,
    response_ns: u64,
    arrival: Arrival,
    line: usize,
) -> TraceRequest {
    TraceRequest { kind, block, blocks, response_ns, arrival, line }
}

#[test]
fn a_validation_trace_has_pauses() {
    let text = "R Hit 100 4 663.5 45422.0\nW 200 8 607 10\n";
    let trace = parse(text, "a.trace", None).expect("a trace");
    assert_eq!(
        trace.requests,
        [
            request(Kind::Read, 100, 4, 663_500, Arrival::After(0), 1),
            request(Kind::Write, 200, 8, 607_000, Arrival::After(45_422_000), 2),
        ]
    );
}

const BLKPARSE: &str = "\
  8,0    1        1     0.000000000  1234  Q   R 4096 + 8 [fio]
  8,0    1        2     0.000002000  1234  D   R 4096 + 8 [fio]
  8,0    1        3     0.000003000  1234  D  WS 512 + 16 [fio]
  8,0    1        4     0.004002000     0  C   R 4096 + 8 [0]
  8,0    1        5     0.005003000     0  C  WS 512 + 16 [0]
  8,0    1        6     0.006000000  1234  D  FN [fio]
  8,0    1        7     0.006500000     0  C   D 9000 + 8 [0]
  8,0    1        8     0.007000000  1234  D   R 1 + 1 [fio]
CPU1 (sda):
 Reads Queued:           1,        4KiB  Writes Queued:           1,        8KiB
";

#[test]
fn blkparse_gives_the_time_from_issue_to_completion() {
    let trace = parse(BLKPARSE, "a.txt", None).expect("a trace");
    assert_eq!(
        trace.requests,
        [
            request(Kind::Read, 4096, 8, 4_000_000, Arrival::At(2_000), 2),
            request(Kind::Write, 512, 16, 5_000_000, Arrival::At(3_000), 3),
        ]
    );
    assert_eq!(trace.left_out, 2, "a discard, and a read that is not complete");
}

#[test]
fn fio_logs_have_places_or_an_iolog_beside_them() {
    let log = "5, 4000000, 0, 4096, 2097152, 0\n10, 4500000, 1, 8192, 4096, 0\n";
    let trace = parse(log, "lat.log", None).expect("a trace");
    let expected = [
        request(Kind::Read, 4096, 8, 4_000_000, Arrival::After(0), 1),
        request(Kind::Write, 8, 16, 4_500_000, Arrival::After(500_000), 2),
    ];
    assert_eq!(trace.requests, expected);
    let iolog = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 2097152 4096\n/dev/sdb sync 0 0\n/dev/sdb write 4096 8192\n/dev/sdb close\n";
    let times = "5, 4000000, 0, 4096, 0\n10, 4500000, 1, 8192, 0\n";
    let trace = parse(iolog, "io.log", Some((times, "lat.log"))).expect("a trace");
    let lines = [4, 6];
    let expected: Vec<_> =
        expected.iter().zip(lines).map(|(request, line)| TraceRequest { line, ..*request }).collect();
    assert_eq!((trace.requests, trace.left_out), (expected, 1));
}

fn check(text: &str, latencies: Option<&str>, parts: &[&str]) {
    let message = match parse(text, "t", latencies.map(|text| (text, "lat"))) {
        Ok(trace) => panic!("{text:?} was taken: {trace:?}"),
        Err(e) => e.to_string(),
    };
    parts.iter().for_each(|part| assert!(message.contains(part), "{part:?} is not in {message:?}"));
}

#[test]
fn a_trace_that_is_none_is_refused_with_its_line() {
    check("R 1 2 3 4\nX 1 2 3 4\n", None, &["t:2:", "expected R or W"]);
    check("R 1 2 3\n", None, &["t:1:"]);
    check("W 1 2 3 18446744073709551615\n", None, &["t:1:"]);
    check("R 1 0 3 4\n", None, &["t:1:", "no blocks"]);
    check("R 18446744073709551615 8 3 4\n", None, &["t:1:", "beyond any drive"]);
    check("", None, &["t:1:", "not a trace"]);
    check("hello\n", None, &["t:1:", "not a trace"]);
    check(&BLKPARSE.replace("0.000003000", "0.0003"), None, &["t:3:", "expected device"]);
    check(
        &BLKPARSE.replacen("  8,0    1        5", "  8,16   1        5", 1),
        None,
        &["t:5:", "a second device"],
    );
    check("  8,0 1 1 0.000000001 1 Q R 1 + 8 [a]\n", None, &["t: no request with a response time"]);
    check("1, 2, 0, 4096\n2, 2, 0, 4096\n", None, &["without offsets", "log_offset=1"]);
    check("1, 2, 9, 4096, 512\n", None, &["t:1:", "expected time in ms"]);
    check("1, 2, 0, 100, 512\n", None, &["t:1:", "not whole blocks"]);
    check("fio version 2 iolog\n/dev/a read 0 4096\n", None, &["--latencies"]);
    check(
        "fio version 2 iolog\n/dev/a read 0 4096\n",
        Some("1, 2, 1, 4096\n"),
        &["t:2:", "another direction"],
    );
    check("fio version 2 iolog\n/dev/a read 0 4096\n", Some(""), &["t:2:", "only 0 reads"]);
    check("fio version 9 iolog\n", Some(""), &["t:1:", "fio version 9"]);
    check("R 1 2 3 4\n", Some(""), &["--latencies belongs to an iolog"]);
}

#[test]
fn spoiled_traces_never_panic() {
    let texts = [
        "R Hit 100 4 663.5 45422.0\nW 200 8 607 10\n",
        BLKPARSE,
        "5, 4000000, 0, 4096, 2097152, 0\n10, 450, 1, 8192, 4096, 0\n",
    ];
    let mut taken = 0;
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = texts[seed as usize % 3].as_bytes().to_vec();
        for _ in 0..=rng.usize(..3) {
            let at = rng.usize(..bytes.len());
            match rng.u8(..3) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"0123456789-.e,+ \n"[rng.usize(..17)]),
                _ => drop(bytes.splice(at..at, *b"99999999999999999999")),
            }
        }
        taken += u32::from(parse(&String::from_utf8_lossy(&bytes), "spoiled", None).is_ok());
    }
    assert!(taken > 100, "{taken}");
}

/// A trace without a time that was measured was fitted, with a demerit of 1,193,533 %.
#[test]
fn a_trace_in_which_nothing_took_time_is_refused() {
    let line = |us: f64| format!("R {} 8 {us} 10\n", 100);
    let refused = parse(&line(0.0).repeat(3), "a.trace", None).expect_err("no times").to_string();
    assert_eq!(refused, "a.trace: all response times are 0: name a trace with those that were measured");
    assert!(parse(&(line(0.0) + &line(0.5)), "a.trace", None).is_ok());
}

/// A fit to requests for one block named heads and zones as unknown, and not rotation and seeks, of which
/// nothing in the trace depends.
#[test]
fn what_requests_that_hardly_move_cannot_tell_is_said() {
    let unknown = |block: fn(u64) -> u64| {
        let lines = (0..600).map(|n| format!("R {} 8 {} 10\n", block(n), 200 + n % 7));
        let trace = parse(&lines.collect::<String>(), "a.trace", None).expect("a trace");
        let known = fit::Known { len_blocks: Some(1 << 20), ..fit::Known::default() };
        fit::fit(&trace, &known).expect("a fit").unknown.join("; ")
    };
    assert!(unknown(|_| 4096).contains("rotation and seeks: all requests are for block 4096"));
    let near = unknown(|n| n % 2 * 64);
    assert!(
        near.contains("longer seeks: no request is farther than 72 blocks from the one before"),
        "{near}"
    );
    let far = unknown(|n| n * 7919 % (1 << 19));
    assert!(!far.contains("seeks"), "{far}");
}
