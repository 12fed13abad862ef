//! What an owner of the array does not open yet: whoever had it open last may still write to it.

use std::collections::BTreeMap;

use crate::config::{Config, GroupConfig};
use crate::terms;

/// Drives and images that are not claimed, by their declared names, with the cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unclaimed {
    /// Drives that cannot be fenced against their last owner.
    pub unfenced: BTreeMap<String, String>,
    /// Drives that another process has open.
    pub held: BTreeMap<String, String>,
    /// Images that cannot be fenced.
    pub images: BTreeMap<String, String>,
}

impl Unclaimed {
    /// Whether all is claimed.
    pub fn is_empty(&self) -> bool {
        self.unfenced.is_empty() && self.held.is_empty() && self.images.is_empty()
    }

    fn cause(&self, drive: &String) -> Option<&String> {
        self.unfenced.get(drive).or_else(|| self.held.get(drive))
    }

    /// An unclaimed drive that a group has or may have, and why: a spare may have taken the place of a
    /// member.
    fn of<'a>(&'a self, config: &'a Config, group: &'a GroupConfig) -> Option<(&'a String, &'a String)> {
        let mut drives = group.drives.iter().chain(&config.spares);
        drives.find_map(|name| Some((name, self.cause(name)?)))
    }

    /// Whether every group of a declaration, or of a part of it, opens without its drives of these, and
    /// nothing else needs one.
    pub fn can_be_spared(&self, config: &Config) -> bool {
        let is_member = |name: &String| {
            config.spares.contains(name) || config.groups.iter().any(|group| group.drives.contains(name))
        };
        let has_all = self.held.is_empty() && self.images.is_empty();
        has_all && self.unfenced.keys().all(is_member) && Withheld::of(config, self).groups.is_empty()
    }

    /// Whether a group opens without those of its drives. Nobody else writes to an unfenced one beside it,
    /// since opening such a drive takes its lock, or fails; and what is written there does not count, since
    /// the labels of the other drives say so. A drive that another process has open is not lost.
    fn can_be_spared_by(&self, config: &Config, group: &GroupConfig) -> bool {
        let spares = config.spares.iter().filter(|name| self.cause(name).is_some()).count();
        let unfenced = group.drives.iter().filter(|name| self.unfenced.contains_key(*name)).count();
        let is_held = group.drives.iter().any(|name| self.held.contains_key(name));
        !is_held && opens_without(group, unfenced + spares)
    }
}

/// What is not opened until it is claimed, by declared names, with the cause. Pools that need it are missing
/// meanwhile, and their hosts hear BUSY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Groups that lack a drive which they cannot do without, or which may be written to beside them.
    pub groups: BTreeMap<String, String>,
    /// Their unclaimed drives, and unclaimed spares, drives of a cache and others.
    pub drives: BTreeMap<String, String>,
    /// Those that cannot be fenced.
    pub images: BTreeMap<String, String>,
}

impl Withheld {
    /// What is withheld where these drives and images are unclaimed, and all others are claimed.
    pub fn of(config: &Config, unclaimed: &Unclaimed) -> Withheld {
        let Unclaimed { unfenced, held, images } = unclaimed;
        let drives = unfenced.iter().chain(held).map(|(name, cause)| (name.clone(), cause.clone())).collect();
        let mut withheld = Withheld { drives, images: images.clone(), ..Withheld::default() };
        for group in &config.groups {
            let Some((drive, cause)) = unclaimed.of(config, group) else { continue };
            match unclaimed.can_be_spared_by(config, group) {
                true => group.drives.iter().for_each(|name| _ = withheld.drives.remove(name)),
                false => {
                    let cause = format!("waits for drive {drive:?}: {cause}");
                    withheld.groups.insert(group.name.clone(), cause);
                }
            }
        }
        withheld
    }

    /// The same, if an owner may begin so: something is served, and no group would have to be created without
    /// all of its drives.
    pub fn to_begin(
        config: &Config,
        was_made: impl Fn(&str) -> bool,
        unclaimed: &Unclaimed,
    ) -> Option<Withheld> {
        let withheld = Withheld::of(config, unclaimed);
        let mut lacking = config.groups.iter().filter(|group| unclaimed.of(config, group).is_some());
        let is_open = |group: &String| was_made(group) && !withheld.groups.contains_key(group);
        let mut pools = config.pools.iter();
        let is_served = pools.any(|pool| pool.groups.iter().chain(&pool.journal).all(is_open));
        let has_image = config.images.iter().any(|image| !withheld.images.contains_key(&image.name));
        (lacking.all(|group| was_made(&group.name)) && (is_served || has_image)).then_some(withheld)
    }

    /// What of this is still withheld where these are unclaimed.
    #[must_use]
    pub fn still(&self, config: &Config, unclaimed: &Unclaimed) -> Withheld {
        let mut next = Withheld::of(config, unclaimed);
        next.groups.retain(|name, _| self.groups.contains_key(name));
        next.images.retain(|name, _| self.images.contains_key(name));
        let is_member = |drive: &String| {
            let mut groups = config.groups.iter().filter(|group| next.groups.contains_key(&group.name));
            groups.any(|group| group.drives.contains(drive))
        };
        next.drives.retain(|name, _| self.drives.contains_key(name) || is_member(name));
        next
    }

    /// Whether everything may be opened.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.drives.is_empty() && self.images.is_empty()
    }

    /// The declaration of what is withheld, to claim it.
    pub fn part(&self, config: &Config) -> Config {
        let mut part = config.clone();
        part.groups.retain(|group| self.groups.contains_key(&group.name));
        part.images.retain(|image| self.images.contains_key(&image.name));
        let is_member = |name: &String| part.groups.iter().any(|group| group.drives.contains(name));
        part.drives.retain(|drive| self.drives.contains_key(&drive.name) || is_member(&drive.name));
        part
    }
}

/// Whether a declared group that was made opens when so many of its drives are missing, whichever they are.
fn opens_without(group: &GroupConfig, missing: usize) -> bool {
    terms::level(group.level).opens_without(group.drives.len(), missing, group.start_degraded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let drives: String = ["a", "b", "c", "d", "e", "s", "x"]
            .map(|name| format!("[[drive]]\nname = \"{name}\"\nrbd = \"vms/{name}\"\n"))
            .concat();
        let group = |name: &str, level: &str, drives: &[&str]| {
            format!("[[group]]\nname = \"{name}\"\nlevel = \"{level}\"\ndrives = {drives:?}\n")
        };
        let text = format!(
            "target = \"iqn.2026-11.test:a\"\nspares = [\"s\"]\ncache = {{ memory = \"256MiB\" }}\n{drives}{}{}{}\
             [[pool]]\nname = \"p5\"\ngroups = [\"five\"]\n\
             [[pool]]\nname = \"p0\"\ngroups = [\"zero\"]\njournal = \"journal\"\n",
            group("five", "raid5", &["a", "b", "c"]),
            group("zero", "raid0", &["d"]),
            group("journal", "raid0", &["e"]),
        );
        Config::parse(&text, "array.toml", "/tmp".as_ref()).expect("a declaration")
    }

    fn names(of: &BTreeMap<String, String>) -> String {
        of.keys().cloned().collect::<Vec<_>>().join(" ")
    }

    /// Unfenced drives, held ones, and what is withheld then: groups, and drives.
    #[test]
    fn what_lacks_a_drive_is_withheld_and_the_rest_is_served() {
        let config = config();
        let cases = [
            ("", "", Some(("", ""))),
            ("a", "", Some(("", ""))),
            ("a b", "", Some(("five", "a b"))),
            ("", "a", Some(("five", "a"))),
            ("d", "", Some(("zero", "d"))),
            ("e", "", Some(("journal", "e"))),
            ("a d", "", Some(("zero", "d"))),
            ("x", "", Some(("", "x"))),
            // Each group may have the spare: only one of them can do without.
            ("s", "", Some(("journal zero", "s"))),
            ("a s", "", None),
            ("a b d", "", None),
            ("a b", "e", None),
        ];
        for (unfenced, held, expected) in cases {
            let with_cause = |all: &str| -> BTreeMap<String, String> {
                all.split_whitespace().map(|name| (name.to_owned(), "why".to_owned())).collect()
            };
            let unclaimed =
                Unclaimed { unfenced: with_cause(unfenced), held: with_cause(held), ..Unclaimed::default() };
            let withheld = Withheld::to_begin(&config, |_| true, &unclaimed);
            let seen = withheld.map(|withheld| (names(&withheld.groups), names(&withheld.drives)));
            let expected = expected.map(|(groups, drives)| (groups.to_owned(), drives.to_owned()));
            assert_eq!(seen, expected, "{unfenced} | {held}");
        }
    }

    #[test]
    fn what_its_groups_can_do_without_is_spared() {
        let mut part = config();
        let spared = |config: &Config, names: &[&str]| {
            let unfenced = names.iter().map(|name| ((*name).to_owned(), "why".to_owned())).collect();
            Unclaimed { unfenced, ..Unclaimed::default() }.can_be_spared(config)
        };
        assert!(spared(&part, &["a"]) && !spared(&part, &["a", "b"]) && !spared(&part, &["a", "d"]));
        assert!(!spared(&part, &["x"]), "of no group");
        assert!(!spared(&part, &["s"]), "the spare may be a member, of either group");
        let images = [("a".to_owned(), "why".to_owned())].into();
        assert!(!Unclaimed { images, ..Unclaimed::default() }.can_be_spared(&part));
        // A controller at another node: what is of other controllers does not matter.
        part.groups.retain(|group| group.name == "five");
        assert!(spared(&part, &["a"]) && !spared(&part, &["d"]) && !spared(&part, &["a", "s"]));
    }

    #[test]
    fn a_new_group_needs_all_of_its_drives() {
        let config = config();
        let unclaimed = |drive: &str| Unclaimed {
            unfenced: [(drive.to_owned(), "why".to_owned())].into(),
            ..Unclaimed::default()
        };
        let made = |name: &str| name != "zero";
        let may = |drive: &str| Withheld::to_begin(&config, made, &unclaimed(drive)).is_some();
        assert!(!may("d") && may("a"));
        assert!(!may("s"), "it may get the spare");
    }

    #[test]
    fn what_is_claimed_later_is_released_and_nothing_else_is_withheld_then() {
        let config = config();
        let unclaimed = |drives: &[&str]| Unclaimed {
            unfenced: drives.iter().map(|name| ((*name).to_owned(), "why".to_owned())).collect(),
            ..Unclaimed::default()
        };
        let first = Withheld::of(&config, &unclaimed(&["d", "e", "x"]));
        assert_eq!((names(&first.groups), names(&first.drives)), ("journal zero".into(), "d e x".into()));
        let next = first.still(&config, &unclaimed(&["e", "a", "b"]));
        assert_eq!((names(&next.groups), names(&next.drives)), ("journal".into(), "e".into()));
        assert!(next.still(&config, &unclaimed(&[])).is_empty());
    }
}
