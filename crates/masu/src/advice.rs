//! Commands in messages must exist: a test compares every `masu ...` in the sources with the command line.

use std::path::Path;

use clap::{Command, CommandFactory};

use crate::Cli;

/// Sources in which every `masu` begins a command.
const ADVISERS: [&str; 3] = ["admin/src/trouble.rs", "admin/src/answers.rs", "admin/src/change.rs"];

/// The error in the command at the beginning of `text`; `None` also if it does not begin with a command,
/// unless it `must`.
fn fault(root: &Command, text: &str, must: bool) -> Option<String> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || " -_{}.".contains(c))).unwrap_or(text.len());
    let mut words = text[..end].split_whitespace().skip(1).peekable();
    let (mut command, mut depth) = (root, 0);
    while command.has_subcommands()
        && let Some(word) = words.peek()
    {
        match command.find_subcommand(word) {
            Some(sub) => (command, depth) = (sub, depth + 1),
            None if depth == 0 && !must => return None,
            None if depth > 0 && !command.is_subcommand_required_set() => break,
            None => return Some(format!("{} has no {word:?}", command.get_name())),
        }
        words.next();
    }
    for flag in words.filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty()) {
        let known = |command: &Command| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
        if !known(command) {
            return Some(format!("{} has no --{flag}", command.get_name()));
        }
    }
    None
}

/// The commands in a source, each from its `masu` to the end of its line.
fn named(source: &str) -> impl Iterator<Item = &str> {
    source.lines().flat_map(|line| {
        let starts = |(at, _): &(usize, &str)| {
            let before = line[..*at].chars().next_back();
            before.is_none_or(|c| " (`\"".contains(c))
        };
        line.match_indices("masu ").filter(starts).map(|(at, _)| &line[at..])
    })
}

fn sources(dir: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => sources(&path, each),
            false if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("advice.rs") => {
                each(&path, &std::fs::read_to_string(&path).expect("a source"));
            }
            false => {}
        }
    }
}

#[test]
fn every_command_that_a_message_names_is_there() {
    let mut root = Cli::command();
    root.build();
    let (mut faults, mut seen) = (Vec::new(), 0);
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut |path, source| {
        let must = ADVISERS.iter().any(|adviser| path.ends_with(adviser));
        let text = source.lines().filter(|line| !must || !line.trim_start().starts_with("//"));
        for line in text {
            for command in named(line) {
                seen += 1;
                let told = |fault| format!("{}: {fault}, in {line:?}", path.display());
                faults.extend(fault(&root, command, must).map(told));
            }
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 50, "the sources were found: {seen} commands are named");
}

#[test]
fn a_command_that_is_not_there_is_found() {
    let mut root = Cli::command();
    root.build();
    let check = |text: &str, must, found: bool| {
        assert_eq!(fault(&root, text, must).is_some(), found, "{text}");
    };
    check("masu drive forget NAME", true, false);
    check("masu drive forgets NAME", false, true);
    check("masu drives", true, true);
    check("masu keeps this table", false, false);
    check("masu cache shows it)", false, false);
    check("masu group show GROUP, or more", true, false);
    check("masu serve --pin-first), and", true, false);
    check("masu serve --pin-last", true, true);
}
