//! The answer: a sentence for the first screen, and with what ends it for a section.

use super::results::{Layout, Pattern};
use super::survey::{Predicted, Survey, layout_words, pattern_words};
use lab_core::stats::Estimate;
use lab_core::words::value;
use lab_tools::predict::FULL;

/// The layouts that share something.
pub(crate) const SHARED: [Layout; 2] = [Layout::Raid1x8, Layout::Raid5x4];

/// "RAID1 × 8 carries all 8 servers (104 ± 1 %) and RAID5 × 4 carries 6 servers (with 7: 91 ± 2 %) as well as
/// own disks would; then random reads lose."
pub(crate) fn answer(survey: &Survey<'_>) -> String {
    let carries: Vec<String> = SHARED.into_iter().filter_map(|layout| short(survey, layout)).collect();
    if let Some(given) = given(survey) {
        return given;
    }
    if carries.is_empty() {
        return "No measurement can be compared with an internal disk.".into();
    }
    let lost = SHARED.into_iter().filter_map(|layout| Some((layout, survey.carried(layout).first?.1)));
    let lost: Vec<(Layout, Pattern)> = lost.collect();
    let of = |(layout, pattern): &(Layout, Pattern)| match lost.iter().all(|(_, other)| other == pattern) {
        true => pattern_words(*pattern).to_owned(),
        false => format!("{} ({})", pattern_words(*pattern), layout_words(*layout)),
    };
    let mut words: Vec<String> = lost.iter().map(of).collect();
    words.dedup();
    let then = if words.is_empty() { String::new() } else { format!("; then {} lose", words.join(" and ")) };
    format!("{} as well as own disks would{then}.", carries.join(" and "))
}

/// Of LUs that somebody gave, of which nothing is known but what servers got: "With 4 servers each gets 950
/// random reads a second, 71 % of one alone."
fn given(survey: &Survey<'_>) -> Option<String> {
    let pattern = Pattern::RandomRead;
    let most = *survey.servers(pattern, Layout::Given).last()?;
    let each = value(&survey.estimate(pattern, Layout::Given, most)?);
    let alone = survey.over(pattern, (Layout::Given, most), (Layout::Given, 1));
    let of_alone = alone.filter(|_| most > 1);
    let of_alone =
        of_alone.map_or(String::new(), |over| format!(", {} % of one alone", value(&over.scaled(100.0))));
    Some(format!("With {} each gets {each} random reads a second{of_alone}.", servers_words(most)))
}

fn short(survey: &Survey<'_>, layout: Layout) -> Option<String> {
    let (carried, name) = (survey.carried(layout), layout_words(layout));
    survey.points(Pattern::RandomRead, Layout::Internal, 1).first()?;
    let share = |pattern, servers| {
        let over: Estimate = survey.over(pattern, (layout, servers), (Layout::Internal, 1))?;
        Some(over.scaled(100.0))
    };
    let Some((first, pattern)) = carried.first else {
        let all = Pattern::ALL.into_iter().filter_map(|pattern| share(pattern, carried.most));
        let least = all.min_by(|a, b| a.mean.total_cmp(&b.mean));
        let least = least.map_or(String::new(), |least| format!(" ({} %)", value(&least)));
        let all = servers_words(carried.most);
        return (carried.most > 0).then(|| format!("{name} carries all {all}{least}"));
    };
    let before = survey.servers(pattern, layout).into_iter().rfind(|n| *n < first);
    let carries = before.map_or("carries no server".into(), |n| format!("carries {}", servers_words(n)));
    let lost =
        share(pattern, first).map_or(String::new(), |lost| format!(" (with {first}: {} %)", value(&lost)));
    Some(format!("{name} {carries}{lost}"))
}

/// The same with what ends it, and what the next server costs.
pub(crate) fn details(survey: &Survey<'_>) -> String {
    SHARED
        .into_iter()
        .filter_map(|layout| Some(carried(survey, layout)? + "."))
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn servers_words(n: u32) -> String {
    if n == 1 { "1 server".into() } else { format!("{n} servers") }
}

/// "RAID1 × 8 carries 8 servers; the 9th gets less than from a disk of its own in random reads, where group0
/// works 98 % of the time, and costs each 4 %".
fn carried(survey: &Survey<'_>, layout: Layout) -> Option<String> {
    let carried = survey.carried(layout);
    let name = layout_words(layout);
    survey.points(Pattern::RandomRead, Layout::Internal, 1).first()?;
    let Some((first, pattern)) = carried.first else {
        let full = ends_first(survey, layout).map(|text| format!("; {text}")).unwrap_or_default();
        return (carried.most > 0).then(|| {
            format!(
                "{name} carries all {} that were run as well as disks of their own{full}",
                servers_words(carried.most)
            )
        });
    };
    let before = survey.servers(pattern, layout).into_iter().rfind(|n| *n < first);
    let what = survey.busiest(pattern, layout, first);
    let ends = what.map_or(String::new(), |r| match r.utilisation >= FULL {
        true => format!(", ended by {} ({:.0} % busy)", r.name, 100.0 * r.utilisation),
        false => format!(", though the busiest, {}, works only {:.0} %", r.name, 100.0 * r.utilisation),
    });
    Some(match before {
        None => format!(
            "{name} gives less than a disk in the server in {} from the first server on{ends}",
            pattern_words(pattern)
        ),
        Some(n) => {
            let cost = survey.next_costs(pattern, layout, n);
            let cost =
                cost.map_or(String::new(), |percent| format!("; the next one costs each {percent:.0} %"));
            format!(
                "{name} carries {} as well as disks of their own: then {}{ends}{cost}",
                servers_words(n),
                pattern_words(pattern)
            )
        }
    })
}

/// The pattern that fills a resource with the fewest servers.
fn ends_first(survey: &Survey<'_>, layout: Layout) -> Option<String> {
    let ends = survey
        .whole
        .iter()
        .filter(|p| p.layout == layout)
        .filter_map(|p| Some((p, p.forecast.as_ref().ok()?.ends.as_ref()?)));
    let (predicted, end) = ends.min_by_key(|(_, end)| end.servers)?;
    Some(format!(
        "{} is the first to be full, with {} in {}",
        end.resource,
        servers_words(end.servers),
        pattern_words(predicted.pattern)
    ))
}

/// What ends a pattern on a layout, in a few words.
pub(crate) fn end_words(predicted: &Predicted) -> String {
    match &predicted.forecast {
        Err(refusal) => format!("refused: {refusal}"),
        Ok(forecast) => match (&forecast.ends, &forecast.refused) {
            (Some(end), _) if end.servers <= forecast.measured_to => {
                format!("{} is full at {}", end.resource, servers_words(end.servers))
            }
            (_, Some((from, _))) => format!("no forecast from {} on", servers_words(*from)),
            (Some(end), None) => format!("{} will be full at {}", end.resource, servers_words(end.servers)),
            (None, None) => "no limit within the measured range".into(),
        },
    }
}
