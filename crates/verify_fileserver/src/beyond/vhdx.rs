//! VHDX beside VHD: the format that came after it, where everything else stays.

use super::super::claims::{below, more, tool};
use super::super::figures::{PanelOf, axis, band, lines, panels, timeline};
use super::super::model::course::{Course, LuWindow};
use super::super::scenario::Fileserver;
use lab_core::claim::Measure;
use lab_core::report::{Figure, Series};
use lab_core::stats::{Estimate, ratio_of_means};
use lab_core::words::plain;

type OfLu = fn(&LuWindow) -> f64;

/// Of its commands with the guest's bytes, in percent; none: it had none.
fn crooked_percent(course: &Course) -> Option<f64> {
    of_payload(course, course.commands.crooked).map(|share| 100.0 * share)
}

fn of_payload(course: &Course, commands: u64) -> Option<f64> {
    let payload = course.commands.payload;
    (payload > 0).then(|| commands as f64 / payload as f64)
}

/// Commands for what the guest knows nothing of, for each 1,000 with its bytes.
fn besides_per_mille(course: &Course) -> Option<f64> {
    of_payload(course, course.commands.besides).map(|share| 1000.0 * share)
}

/// What a LU had in each window, on average of all: writes per second, and MB/s of them.
fn writes_of(course: &Course) -> Vec<(f64, f64)> {
    let (iops, mb): (OfLu, OfLu) = (|w| w.write_iops, |w| w.write_mb_per_s);
    course.of_lus(iops).into_iter().zip(course.of_lus(mb)).collect()
}

/// How many writes of a LU per second a dynamic VHDX saves for the same bytes, of the windows (writes per
/// second, MB/s) of both: files of hundreds of MB are written now in this window and now in that one, and
/// their writes with them. The interval is that of a ratio estimator, for each of both, and of what is left
/// in the windows of both in pairs. `None` where nothing was written.
fn fewer_writes(dynamic: &[(f64, f64)], vhdx: &[(f64, f64)]) -> Option<Estimate> {
    let of = |windows: &[(f64, f64)]| -> Option<(Vec<f64>, f64, f64)> {
        let mean = windows.iter().map(|(_, mb)| mb).sum::<f64>() / windows.len().max(1) as f64;
        let per_mb = ratio_of_means(windows)?.mean;
        let rests = windows.iter().map(|(writes, mb)| (writes - per_mb * mb) / mean);
        Some((rests.collect(), per_mb, mean))
    };
    let ((d, per_mb_d, mean_d), (v, per_mb_v, mean_v)) = (of(dynamic)?, of(vhdx)?);
    let mb_per_s = (mean_d + mean_v) / 2.0;
    let saved = (per_mb_d - per_mb_v) * mb_per_s;
    let rest = more(&d, &v)?.scaled(mb_per_s);
    let half = rest.high - rest.mean;
    Some(Estimate { mean: saved, low: saved - half, high: saved + half })
}

/// What was measured for its claims.
pub(in super::super) fn measures(dynamic: &Course, fixed: &Course, vhdx: &Course) -> Vec<Measure> {
    let than_vhd = below(&tool(vhdx), &tool(dynamic)).map(|e| e.scaled(-1.0));
    let besides = besides_per_mille(vhdx).zip(besides_per_mille(dynamic).filter(|vhd| *vhd > 0.0));
    let of_vhd = besides.map(|(vhdx, vhd)| Estimate::exact(100.0 * vhdx / vhd));
    let besides = besides.map(|(vhdx, vhd)| {
        format!("{} instead of {} for each 1,000 I/Os of the guest", plain(vhdx), plain(vhd))
    });
    let straight = crooked_percent(dynamic);
    let straight = straight.map(|percent| format!("{} % of those of a dynamic VHD", plain(percent)));
    vec![
        Measure::new("vhdx.throughput", than_vhd),
        Measure::new("vhdx.cost", below(&tool(vhdx), &tool(fixed))),
        Measure::new("vhdx.straight", crooked_percent(vhdx).map(Estimate::exact)).note(straight),
        Measure::new("vhdx.besides", of_vhd).note(besides),
        Measure::new("vhdx.fewer", fewer_writes(&writes_of(dynamic), &writes_of(vhdx))),
    ]
}

/// The array under three formats, and what they write besides.
pub(in super::super) fn figures(scenario: &Fileserver, courses: &[&Course; 3]) -> [Figure; 2] {
    let of: [PanelOf<'_, LuWindow>; 4] = [
        ("read_mb", "Array reads", ("reads of a LU", "MB/s"), |w| w.read_mb_per_s),
        ("write_mb", "Array writes", ("writes of a LU", "MB/s"), |w| w.write_mb_per_s),
        ("write_iops", "Array writes, I/Os", ("writes of a LU", "IOPS"), |w| w.write_iops),
        ("write_kib", "Size of a write", ("bytes of a write", "KiB"), |w| {
            w.write_mb_per_s * 1e6 / 1024.0 / w.write_iops.max(1.0)
        }),
    ];
    let points = |course: &Course, value: fn(&LuWindow) -> f64| {
        course.arrays.iter().map(|w| band(w.at_s, w.lus.iter().map(value))).collect()
    };
    let [dynamic, vhdx, _] = courses;
    let mean = |course: &Course| {
        let iops = course.of_lus(|w| w.write_iops);
        iops.iter().sum::<f64>() / iops.len().max(1) as f64
    };
    let title = format!(
        "A dynamic VHDX writes {} times per second where a dynamic VHD writes {}",
        plain(mean(vhdx)),
        plain(mean(dynamic))
    );
    [timeline("vhdx", title, scenario, panels(&of), lines(courses, &of, points)), besides(courses)]
}

fn besides(courses: &[&Course; 3]) -> Figure {
    let [dynamic, vhdx, _] = courses;
    let bars = |name: &str, color, of: fn(&Course) -> Option<f64>| {
        let all = courses.iter().enumerate();
        let points = all.filter_map(|(x, course)| Some(vec![x as f64, of(course)?])).collect();
        Series { name: name.into(), color, points, panel: None }
    };
    let crooked: fn(&Course) -> Option<f64> = |course| Some(10.0 * crooked_percent(course)?);
    let title = crooked(dynamic).zip(crooked(vhdx)).map(|(vhd, vhdx)| {
        format!(
            "Of 1,000 I/Os of a guest {vhd:.0} lie across the array's units on a dynamic VHD, {vhdx:.0} on a VHDX"
        )
    });
    Figure {
        id: "vhdx_besides".into(),
        title: title.unwrap_or_else(|| "No guest read or wrote".into()),
        subtitle: Some(
            "By the maps of our own VHD and VHDX, for each 1,000 commands with the guest's bytes".into(),
        ),
        kind: "bars",
        x: axis("configuration", ""),
        y: axis("commands of 1,000", ""),
        categories: ["dynamic VHD", "dynamic VHDX", "fixed"].map(str::to_owned).to_vec(),
        series: vec![
            bars("across the array's 4 KiB", "orange", crooked),
            bars("metadata, besides", "blue", besides_per_mille),
        ],
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By writes per second alone this was 11 ± 14: the large files were in other windows of each run.
    #[test]
    fn writes_are_compared_for_the_same_bytes_whatever_window_they_are_in() {
        let mb = [10.0, 40.0, 5.0, 25.0];
        let dynamic: Vec<_> = mb.iter().map(|mb| (12.0 * mb, *mb)).collect();
        let vhdx: Vec<_> = mb.iter().rev().map(|mb| (10.0 * mb, *mb)).collect();
        let saved = fewer_writes(&dynamic, &vhdx).expect("both write");
        assert!((saved.mean - 2.0 * 20.0).abs() < 1e-9, "2 for each MB, of 20 MB/s: {saved:?}");
        assert!(saved.high - saved.low < 1e-9, "nothing is left that differs: {saved:?}");
        let scattered: Vec<_> =
            vhdx.iter().zip([1.5, 0.5, 1.2, 0.8]).map(|((writes, mb), by)| (writes * by, *mb)).collect();
        let wide = fewer_writes(&dynamic, &scattered).expect("both write");
        assert!(wide.low < wide.mean && wide.mean < wide.high, "what bytes do not explain: {wide:?}");
    }

    #[test]
    fn who_wrote_nothing_saves_nothing() {
        assert!(fewer_writes(&[(0.0, 0.0); 4], &[(10.0, 1.0); 4]).is_none());
        assert!(fewer_writes(&[(10.0, 1.0); 4], &[]).is_none());
    }
}
