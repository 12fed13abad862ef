//! Runs the points of a sweep: the verification's own load, play and claims, on all cores.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::POINTS;
use super::design::{Design, Point, points};
use super::record::SweepRecord;
use super::show;
use super::summary::{Ended, Judged, summary};
use crate::claim::Measure;
use crate::console;
use crate::interrupt::Stop;
use crate::parallel;
use crate::progress::Progress;
use crate::record::World;
use crate::scenario::frame::Frame;
use crate::toml_text::Places;
use crate::verification::{Request, Setup, Verification};

/// What a sweep cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The scenario varies nothing.
    #[error("{0} declares no [[range]]: nothing to vary")]
    NoRange(String),
    /// In real time a sweep would take days.
    #[error("--sweep requires the model world, and {0} runs in real time")]
    Real(String),
    /// Invalid number of points.
    #[error("invalid --points {0}: must be in {min} to {max}", min = POINTS.start(), max = POINTS.end())]
    Points(u32),
    /// The scenario itself fails in the form of the sweep.
    #[error("the scenario with the values of [sweep]: {0}")]
    Scenario(String),
}

/// The points' scenarios: any of them is run again with `--scenario`.
const FOLDER: &str = "sweep";

/// Varies the inputs of a scenario over their ranges and judges every point by the scenario's own bounds.
/// Writes `sweep.csv` and the points' scenarios into the output folder. After a stop request the completed
/// points are kept.
///
/// # Errors
///
/// When the scenario declares no ranges, or does not run in the model world.
pub fn sweep<V: Verification>(
    request: &Request,
    form: &V::Options,
    count: u32,
    stop: &Stop,
) -> Result<SweepRecord> {
    let (scenario, text, frame) = swept::<V>(request, form, count)?;
    let folder = request.out.join(FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let of = Swept::<V> { request, form, frame: &frame, text: &text, folder: &folder };
    let (all, mut refused) = points(&frame, count, |point| of.refusal(point));
    let ran = of.run(&all, stop)?;
    let mut judged = Vec::new();
    for (index, outcome) in ran {
        match outcome {
            Outcome::Measured(measures) => {
                let claims = V::stated(&scenario).judge(World::Model, &measures, false);
                judged.push(Judged { point: all[index].clone(), claims });
            }
            Outcome::Stopped => {}
            Outcome::Real => return Err(SweepError::Real(V::NAME.into()).into()),
            Outcome::Failed(why) if all[index].design == Design::Scenario => {
                return Err(SweepError::Scenario(why).into());
            }
            Outcome::Failed(why) => refused.push(why),
        }
    }
    show::write_csv(&request.out.join("sweep.csv"), &frame, &judged)?;
    Ok(summary(&frame, &judged, &Ended { refused, stopped: stop.is_asked() }))
}

/// Whether a sweep can be, before anything is run.
///
/// # Errors
///
/// When the scenario declares no ranges, or there cannot be so many points.
pub fn check<V: Verification>(request: &Request, form: &V::Options, count: u32) -> Result<()> {
    swept::<V>(request, form, count).map(drop)
}

/// The scenario in the form of the sweep, its text, and its ranges.
fn swept<V: Verification>(
    request: &Request,
    form: &V::Options,
    count: u32,
) -> Result<(V::Scenario, String, Frame)> {
    if !POINTS.contains(&count) {
        return Err(SweepError::Points(count).into());
    }
    let (scenario, text) = V::load(request, form)?;
    let path =
        request.scenario.as_ref().map_or_else(|| V::NAME.to_owned(), |path| path.display().to_string());
    let frame = Frame::read(&text, &path)?;
    match frame.ranges.is_empty() {
        true => Err(SweepError::NoRange(path).into()),
        false => Ok((scenario, text, frame)),
    }
}

/// What became of a point.
enum Outcome {
    Measured(Vec<Measure>),
    Stopped,
    /// It was not run in the model world.
    Real,
    Failed(String),
}

/// What is said of a point while it runs.
enum Said {
    Began(usize),
    Ended,
}

/// A scenario that is swept.
struct Swept<'a, V: Verification> {
    request: &'a Request,
    form: &'a V::Options,
    frame: &'a Frame,
    text: &'a str,
    folder: &'a Path,
}

impl<V: Verification> Swept<'_, V> {
    /// The scenario of a point, as a file.
    fn write(&self, point: &Point, name: &str) -> Result<PathBuf, String> {
        let places = Places::of(self.text).map_err(|misread| misread.cause)?;
        let set = self.frame.set.iter().map(|(path, value)| (path.as_str(), value.as_str()));
        let varied = self.frame.ranges.iter().zip(&point.values);
        let varied = varied.map(|(range, choice)| (range.input.as_str(), choice.toml.as_str()));
        let text = places.with(&set.chain(varied).collect::<Vec<_>>());
        let path = self.folder.join(format!("{name}.toml"));
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    /// That of a point; the files that the scenario names stay where they are.
    fn request(&self, scenario: PathBuf) -> Request {
        let request = self.request.clone();
        let own = request.scenario.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let beside = Some(request.beside.clone().unwrap_or(own));
        Request { scenario: Some(scenario), out: self.folder.to_owned(), beside, ..request }
    }

    /// Why a scenario with these values is none.
    fn refusal(&self, point: &Point) -> Option<String> {
        let path = match self.write(point, "tried") {
            Ok(path) => path,
            Err(why) => return Some(why),
        };
        let refusal = V::load(&self.request(path.clone()), self.form).err().map(|e| console::causes(&e));
        let _ = std::fs::remove_file(path);
        refusal
    }

    /// Runs all points. An outcome is missing where somebody asked to stop.
    fn run(&self, all: &[Point], stop: &Stop) -> Result<Vec<(usize, Outcome)>> {
        let (progress, from, mut ended) = (Progress::new(all.len() as u64), Instant::now(), 0);
        let work = |index: usize, say: &dyn Fn(Said)| {
            say(Said::Began(index));
            let outcome = self.outcome(&all[index], index, stop);
            say(Said::Ended);
            outcome
        };
        let hear = |said| match said {
            Said::Began(index) => {
                let left = left(from.elapsed(), ended, all.len());
                progress.step(&format!("point {index:03}, {}{left}", all[index].design.name()));
            }
            Said::Ended => ended += 1,
        };
        let done = parallel::run((all.len(), parallel::cores()), stop, work, hear)?;
        progress.end();
        Ok(done)
    }

    fn outcome(&self, point: &Point, index: usize, stop: &Stop) -> Result<Outcome> {
        let path = self.write(point, &format!("{index:03}")).map_err(anyhow::Error::msg)?;
        let request = self.request(path);
        let (scenario, text) = V::load(&request, self.form)?;
        let setup = Setup::<V> { request: &request, own: self.form, scenario: &scenario, text: &text };
        // What fails in a point stops it, and no other.
        let recording = match V::play(&setup, &stop.of_part()) {
            Ok(recording) => recording,
            Err(error) => return Ok(Outcome::Failed(console::causes(&error))),
        };
        let course = V::course(&setup, &recording);
        Ok(match (course.world, course.stopped) {
            (World::Real, _) => Outcome::Real,
            (World::Model, true) => Outcome::Stopped,
            (World::Model, false) => Outcome::Measured(V::claims(&setup, &recording)),
        })
    }
}

/// ", about 3 min left", once a point has ended.
fn left(elapsed: Duration, ended: usize, of: usize) -> String {
    if ended == 0 {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() / ended as f64 * (of - ended) as f64;
    match seconds {
        s if s < 90.0 => format!(", about {s:.0} s left"),
        s => format!(", about {:.0} min left", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_that_of_the_points_that_ended() {
        assert_eq!(left(Duration::from_secs(5), 0, 10), "");
        assert_eq!(left(Duration::from_secs(10), 2, 10), ", about 40 s left");
        assert_eq!(left(Duration::from_secs(100), 2, 10), ", about 7 min left");
    }
}
