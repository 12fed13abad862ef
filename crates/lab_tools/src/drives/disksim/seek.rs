//! The seek times of DiskSim's mechanical model: from a file, three numbers, or a formula.

use std::io;

use world_model::drives::Seek;

use super::error::DisksimError;
use super::text::{Block, Entry, Value};

/// Distances of a seek curve that a formula gives: each up to here, then in steps of 2 %.
const EVERY_DISTANCE: u32 = 128;

/// The seek times of a drive with so many cylinders; `other` reads a file that the block names.
pub(super) fn seek(
    mechanics: &Block,
    cylinders: u32,
    other: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Seek, DisksimError> {
    let three = || {
        Ok::<_, DisksimError>([
            mechanics.ns("Single cylinder seek time")?,
            mechanics.ns("Average seek time")?,
            mechanics.ns("Full strobe seek time")?,
        ])
    };
    let kind = match mechanics.find("Seek type").map(|entry| &entry.value) {
        Some(Value::Word(kind)) => kind.as_str(),
        _ => return mechanics.wrong("Seek type", "must be a word"),
    };
    match kind {
        "extracted" => extracted(mechanics, cylinders, other),
        "curve" => {
            three().map(|[single_ns, average_ns, full_ns]| Seek::Datasheet { single_ns, average_ns, full_ns })
        }
        "linear" => {
            let [single, average, full] = three()?;
            let third = (cylinders / 3).max(2);
            Ok(Seek::Measured(vec![(1, single), (third, average), (cylinders.max(third + 1), full)].into()))
        }
        "constant" => Ok(Seek::Measured(vec![(1, mechanics.ns("Constant seek time")?)].into())),
        "hpl" | "hplplus10" => by_formula(mechanics, cylinders, kind == "hplplus10"),
        _ => mechanics.wrong("Seek type", "must be extracted, curve, linear, constant, hpl or hplplus10"),
    }
}

/// A file with a line for each distance, after one that counts them.
fn extracted(
    mechanics: &Block,
    cylinders: u32,
    other: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Seek, DisksimError> {
    let Some(Entry { value: Value::Word(name), line, .. }) = mechanics.find("Full seek curve") else {
        return mechanics.wrong("Full seek curve", "must be a file");
    };
    let text = other(name).map_err(|e| DisksimError::Syntax {
        path: mechanics.path.clone(),
        line: *line,
        cause: format!("{name}: {e}"),
    })?;
    let mut points: Vec<(u32, u32)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let mut words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let (distance, ms) = (words.next().map(str::parse), words.next().map(str::parse::<f64>));
        match (distance, ms) {
            (Some(Ok(distance)), Some(Ok(ms))) if (0.0..=1000.0).contains(&ms) => {
                points.push((distance, (ms * 1e6).round() as u32));
            }
            _ => {
                let cause = format!("{line:?} is not a distance in cylinders and a time in ms");
                return Err(DisksimError::Syntax { path: name.clone(), line: i + 1, cause });
            }
        }
    }
    Ok(Seek::Measured(beyond(points, cylinders).into()))
}

/// DiskSim draws the line of the two last points on to the last cylinder.
fn beyond(mut points: Vec<(u32, u32)>, cylinders: u32) -> Vec<(u32, u32)> {
    if let [.., (d1, t1), (d2, t2)] = points[..]
        && d1 < d2
        && d2 < cylinders
    {
        let slope = (f64::from(t2) - f64::from(t1)) / f64::from(d2 - d1);
        let time = f64::from(t2) + slope * f64::from(cylinders - d2);
        points.push((cylinders, time.clamp(0.0, 1e9) as u32));
    }
    points
}

/// Ruemmler and Wilkes, 1994: a root up to a distance, a line behind it; single cylinders, or the first ten
/// distances, by themselves.
fn by_formula(mechanics: &Block, cylinders: u32, with_ten: bool) -> Result<Seek, DisksimError> {
    let values = mechanics.numbers("HPL seek equation values")?;
    let [division, root_base, root, line_base, line, single] = values[..] else {
        return mechanics.wrong("HPL seek equation values", "must be six numbers");
    };
    let ten = if with_ten { mechanics.numbers("First ten seek times")? } else { vec![] };
    if with_ten && ten.len() != 10 {
        return mechanics.wrong("First ten seek times", "must be ten numbers");
    }
    let ms = |distance: u32| match ten.get(distance as usize - 1) {
        Some(ms) => *ms,
        None if distance == 1 && single != -1.0 => single,
        None if f64::from(distance) < division => root_base + root * f64::from(distance).sqrt(),
        None => line_base + line * f64::from(distance),
    };
    let mut points = Vec::new();
    let mut distance = 1;
    while distance < cylinders.max(2) {
        points.push((distance, (ms(distance) * 1e6).clamp(0.0, 1e9).round() as u32));
        distance += if distance < EVERY_DISTANCE { 1 } else { distance / 50 };
    }
    points.push((cylinders.max(2), (ms(cylinders.max(2)) * 1e6).clamp(0.0, 1e9).round() as u32));
    points.dedup_by_key(|point| point.0);
    Ok(Seek::Measured(points.into()))
}
