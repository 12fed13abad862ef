//! Sizes: `10GiB`, `512 MiB`, `4096`, `1.5TB`.

use crate::{is_number, split};

/// Bytes of a size with a unit: `KiB`…`PiB` are powers of 1024, `KB`…`PB` of 1000, `K`…`P` are short for the
/// binary ones (as hypervisors use them); none is bytes. A part of a byte is rounded.
///
/// # Errors
///
/// What is wrong with the text, and the grammar.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "invalid size {text:?}: write a number and a unit, as in 10GiB \
             (KiB MiB GiB TiB PiB by 1024, KB MB GB TB PB by 1000, none for bytes)"
        )
    };
    let too_large = || format!("invalid size {text:?}: must be less than 16384PiB");
    let (number, unit) = split(text);
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => return Err(wrong()),
    };
    if !is_number(number) {
        return Err(wrong());
    }
    match number.contains('.') {
        false => number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(too_large),
        true => {
            let bytes = number.parse::<f64>().map_err(|_| wrong())? * scale as f64;
            if bytes < u64::MAX as f64 { Ok(bytes.round() as u64) } else { Err(too_large()) }
        }
    }
}

/// A size for people: binary units, three significant digits.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 || value.fract() == 0.0 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A size as a file has it, exactly: the largest binary unit of which it is a multiple; bytes without a unit.
pub fn exact_bytes(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(shift, _): &&(u32, &str)| bytes != 0 && bytes.trailing_zeros() >= *shift;
    match UNITS.iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_written_well_and_too_large_is_told_so() {
        for text in ["16384PiB", "9999999PiB", "99999999999999999999", "99999999.5PiB", "16384.0PiB"] {
            let error = parse_bytes(text).expect_err(text);
            assert!(error.contains(&format!("{text:?}: must be less than 16384PiB")), "{error}");
        }
        assert_eq!(parse_bytes("16383PiB"), Ok(16383 << 50));
        assert!(parse_bytes("1e3").expect_err("no number").contains("write a number and a unit"));
    }

    #[test]
    fn an_exact_size_is_read_back_as_it_was() {
        let of = [(0, "0"), (1000, "1000"), (1 << 10, "1KiB"), (3 << 29, "1536MiB"), (5 << 40, "5TiB")];
        for (bytes, text) in of {
            assert_eq!((exact_bytes(bytes).as_str(), parse_bytes(text)), (text, Ok(bytes)));
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_bytes("10GiB"), Ok(10 << 30));
        assert_eq!(parse_bytes("10 g"), Ok(10 << 30));
        assert_eq!(parse_bytes("1.5MB"), Ok(1_500_000));
        assert_eq!(parse_bytes(" 4096 "), Ok(4096));
        for bad in ["", "ten", "5 parsecs", "1.2.3G", ".", "1.", ".5G", "-1", "1e3"] {
            let error = parse_bytes(bad).expect_err(bad);
            assert!(error.contains(&format!("{bad:?}")) && error.contains("as in 10GiB"), "{error}");
        }
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(10 << 30), "10 GiB");
        assert_eq!(format_bytes(1_500_000_000), "1.40 GiB");
        assert_eq!(format_bytes(1000 << 20), "0.98 GiB");
    }
}
