//! Patterns: the number and the size of files, read or written.

use std::fmt;
use std::str::FromStr;

/// Sizes are given in MB of 2^20 bytes, as 64 files of 128 MB make 8 GB; speeds are in MB/s of 10^6.
pub(crate) const SIZE_MB: u64 = 1 << 20;
/// Alignment of direct I/O, valid for all current drives.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// One thread per file.
const FILES_MAX: u32 = 4096;
/// 16 TiB, the largest file of ext4.
const FILE_BYTES_MAX: u64 = 16 << 40;

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// "R1".
    pub name: String,
    /// Read or write.
    pub direction: Direction,
    /// Concurrent files, one thread each.
    pub files: u32,
    /// Size of each file.
    pub file_bytes: u64,
}

/// Why a text is not a pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatternError {
    /// Neither a name nor a shape.
    #[error("unknown pattern {0:?} (expected R1 to R4, W1 to W4, or e.g. R16x512 for 16 files of 512 MB)")]
    Unknown(String),
    /// No files, or too many.
    #[error("invalid number of files {0}: must be 1 to {FILES_MAX}")]
    Files(u32),
    /// Files too small or too large.
    #[error("invalid file size of {0} bytes: must be 4096 bytes to 16 TiB")]
    FileBytes(u64),
}

/// Files and MB of each of the published patterns 1 to 4: 8 GB in total.
const SHAPES: [(u32, u64); 4] = [(64, 128), (32, 256), (16, 512), (8, 1024)];

/// The eight patterns of the published experiment: each shape written and then read.
pub fn published() -> Vec<Pattern> {
    let both = |(number, (files, size_mb)): (usize, (u32, u64))| {
        [Direction::Write, Direction::Read].map(|direction| Pattern {
            name: format!("{}{}", direction.letter(), number + 1),
            direction,
            files,
            file_bytes: size_mb * SIZE_MB,
        })
    };
    SHAPES.into_iter().enumerate().flat_map(both).collect()
}

impl Direction {
    fn letter(self) -> char {
        match self {
            Direction::Read => 'R',
            Direction::Write => 'W',
        }
    }

    /// "read".
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

impl Pattern {
    /// The pattern with files scaled by `share`, in whole blocks, at least one.
    pub fn scaled(&self, scale: f64) -> Pattern {
        let blocks = (self.file_bytes as f64 * scale / BLOCK_BYTES as f64).round() as u64;
        Pattern { file_bytes: blocks.max(1) * BLOCK_BYTES, ..self.clone() }
    }

    /// Size of all files together.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.files) * self.file_bytes
    }

    /// Checks the limits.
    pub fn check(&self) -> Result<(), PatternError> {
        if !(1..=FILES_MAX).contains(&self.files) {
            return Err(PatternError::Files(self.files));
        }
        match (BLOCK_BYTES..=FILE_BYTES_MAX).contains(&self.file_bytes)
            && self.file_bytes.is_multiple_of(BLOCK_BYTES)
        {
            true => Ok(()),
            false => Err(PatternError::FileBytes(self.file_bytes)),
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let unknown = || PatternError::Unknown(text.into());
        let name = text.trim().to_ascii_uppercase();
        if let Some(one) = published().into_iter().find(|one| one.name == name) {
            return Ok(one);
        }
        let direction = match name.chars().next() {
            Some('R') => Direction::Read,
            Some('W') => Direction::Write,
            _ => return Err(unknown()),
        };
        let (files, size_mb) = name[1..].split_once('X').ok_or_else(unknown)?;
        let size_mb: u64 = size_mb.parse().map_err(|_| unknown())?;
        let pattern = Pattern {
            files: files.parse().map_err(|_| unknown())?,
            file_bytes: size_mb.saturating_mul(SIZE_MB),
            direction,
            name,
        };
        pattern.check()?;
        Ok(pattern)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = self.file_bytes as f64 / SIZE_MB as f64;
        write!(f, "{} × {} MB", self.files, (mb * 100.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_patterns_are_eight_gigabytes_each() {
        let all = published();
        let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["W1", "R1", "W2", "R2", "W3", "R3", "W4", "R4"]);
        assert!(all.iter().all(|p| p.total_bytes() == 8 << 30 && p.check().is_ok()));
        assert_eq!("r2".parse::<Pattern>().expect("known").to_string(), "32 × 256 MB");
    }

    #[test]
    fn any_number_and_size_is_a_pattern() {
        let own: Pattern = "W3x7".parse().expect("reads");
        assert_eq!((own.files, own.file_bytes, own.direction), (3, 7 << 20, Direction::Write));
        assert_eq!(own.scaled(0.001).file_bytes, 8192);
        assert_eq!(own.scaled(1e-9).file_bytes, 4096);
        let odd = ["", "R", "R9", "X1", "R0x1", "R1x0", "R5000x1", "R1x-1", "W1x99999999999999999999", "Rß1"];
        for text in odd {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        assert!("W1x17000000000000".parse::<Pattern>().is_err());
    }
}
