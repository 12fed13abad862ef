//! Traces in each format, and texts that are none.

use super::trace::{Arrival, TraceRequest, parse};
use super::{checked_text, fit};
use world::Rng;
use world_model::drives::{DriveModel, Kind};

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
    check("", None, &["t: it is empty"]);
    check("\n# nothing\n \n", None, &["t: it is empty"]);
    check("\n\nhello\n", None, &["t:3:", "not a trace"]);
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

/// A blkparse text that was damaged in the middle was replayed as far as that; DiskSim's columns between
/// tabs, a comment and a byte order mark were no trace.
#[test]
fn a_trace_is_read_to_its_end_whatever_separates_its_words() {
    let requests = |text: &str| parse(text, "t", None).map(|trace| trace.requests.len());
    for text in
        ["R 100 4 663.5 10\nW 200 8 607 10\n", BLKPARSE, "5, 400, 0, 4096, 512, 0\n9, 4, 1, 512, 512, 0\n"]
    {
        assert_eq!(requests(text).expect("a trace"), 2);
        assert_eq!(requests(&format!("\u{feff}# a comment\n\n{text}# its end\n")).expect("a trace"), 2);
        assert_eq!(requests(&text.replace('\n', "\r\n")).expect("a trace"), 2);
        assert_eq!(requests(&text.replace(' ', "\t")).expect("a trace"), 2);
    }
    let damaged = BLKPARSE.replacen("  8,0    1        5", "8.0 1 5", 1);
    check(&damaged, None, &["t:5:", "expected device, cpu"]);
}

/// All requests of a log for the first block were called a log without offsets, also where fio wrote them.
#[test]
fn a_log_with_offsets_of_0_has_them_where_a_priority_follows() {
    let trace = parse("1, 9, 0, 4096, 0, 0\n2, 9, 0, 4096, 0, 0\n", "t", None).expect("a trace");
    assert_eq!(trace.requests.iter().map(|request| request.block).collect::<Vec<_>>(), [0, 0]);
    for without in ["1, 9, 0, 4096, 0\n2, 9, 0, 4096, 0\n", "1, 9, 0, 4096, 0\n", "1, 9, 0, 4096, 0x0000\n"] {
        check(without, None, &["t: a latency log without offsets, or with 0", "log_offset=1"]);
    }
}

/// The log of another run, with other sizes or more requests, was taken, and so were two files for one drive.
#[test]
fn an_iolog_and_its_latencies_are_of_one_run_on_one_file() {
    let iolog = "fio version 2 iolog\n/a read 0 4096\n/a write 4096 512\n";
    let log = "1, 9, 0, 4096\n2, 9, 1, 512\n";
    assert_eq!(parse(iolog, "t", Some((log, "lat"))).expect("of one run").requests.len(), 2);
    check(iolog, Some(&log.replace("512", "8192")), &["t:3:", "another direction or size"]);
    check(iolog, Some(&log.repeat(2)), &["t: ", "has 4 reads and writes, and this iolog 2"]);
    check(&iolog.replace("/a write", "/b write"), Some(log), &["t:3:", "a second file"]);
}

/// Pauses of four months each, which are possible alone, ended a replay with an overflow.
#[test]
fn times_that_are_too_long_together_are_refused() {
    let line = "R 1 8 10 9.9e12\n";
    assert!(parse(&line.repeat(8), "t", None).is_ok());
    check(&line.repeat(9), None, &["t: its times together are more than two years"]);
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
        let lines = (0..600).map(|n| format!("R {} 8 {} 10\n", block(n), 4000 + n % 7 * 100));
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

/// A trace of a drive of more than 2 TB was beyond every drive that the fit tried.
#[test]
fn a_drive_of_any_size_can_be_fitted() {
    let fitted = |len_blocks: u64, rates: &[f64], us: u64| {
        let lines = (0..600_u64)
            .map(|n| format!("R {} 8 {} 10\n", n * 7919 % 600 * (len_blocks / 600), us + n % 9 * us / 10));
        let trace = parse(&lines.collect::<String>(), "a.trace", None).expect("a trace");
        let known = fit::Known { name: "d".into(), len_blocks: Some(len_blocks), rates: rates.to_vec() };
        fit::fit(&trace, &known).map(|fitted| fitted.parameters).map_err(|error| error.to_string())
    };
    let tb = 1_000_000_000_000 / 512;
    for (len_blocks, rates) in
        [(9 * tb, &[][..]), (24 * tb, &[270e6, 200e6, 130e6][..]), (90 * tb, &[1e6; 9])]
    {
        let parameters = fitted(len_blocks, rates, 6000).expect("a drive");
        let text = checked_text(&parameters, &[]).expect("a drive file");
        assert_eq!(super::parse(&text, "written").expect("it reads"), parameters);
        assert_eq!(DriveModel::new(&parameters).expect("a drive").len_blocks(), len_blocks);
    }
    let refused = fitted(1 << 45, &[], 6000).expect_err("beyond any drive");
    assert!(refused.contains("no drive is so large"), "{refused}");
    // Response times of flash, and of a drive that hung.
    for us in [10, 1_000_000_000] {
        let refused = fitted(tb, &[], us).expect_err("no disk");
        assert!(refused.contains("no drive with platters is like this trace"), "{us}: {refused}");
    }
}
