//! What a start makes of a declaration and of what the array kept from its last life.

use array::Config;

/// The declaration laid over what was kept: what is declared is made, what is there and not declared stays. What groups and
/// pools are made of is changed by commands and by spares while the array runs, and never taken back by an old declaration.
pub(crate) fn laid_over(kept: Config, declared: Config) -> Config {
    let before = kept.clone();
    let mut next = kept.overlaid_with(declared);
    for group in &mut next.groups {
        if let Some(kept) = before.groups.iter().find(|g| g.name == group.name) {
            group.drives.clone_from(&kept.drives);
        }
    }
    for pool in &mut next.pools {
        let Some(kept) = before.pool(&pool.name) else { continue };
        for group in &kept.groups {
            if !pool.groups.contains(group) {
                pool.groups.push(group.clone());
            }
        }
        pool.leaving.clone_from(&kept.leaving);
        pool.leaving.retain(|group| !pool.groups.contains(group));
    }
    let groups = &next.groups;
    next.spares.retain(|spare| !groups.iter().any(|g| g.drives.contains(spare)));
    next
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use admin::Declaration;

    use super::*;

    fn config(spares: &str, drives: &str, groups: &str) -> Config {
        let mut text = format!("spares = {spares}\n");
        for drive in ["d0", "d1", "d2", "s0", "new", "e0"] {
            text += &format!("[[drive]]\nname = \"{drive}\"\nfile = \"{drive}.img\"\nsize = \"1GiB\"\n");
        }
        text += &format!(
            "[[group]]\nname = \"g0\"\nlevel = \"raid5\"\ndrives = {drives}\n\
             [[group]]\nname = \"g1\"\nlevel = \"raid0\"\ndrives = [\"e0\"]\n\
             [[pool]]\nname = \"p0\"\n{groups}\n"
        );
        Declaration::parse(&text, "array.toml", Path::new("/data")).expect("good")
    }

    #[test]
    fn an_old_declaration_takes_nothing_back() {
        let declared = config("[\"s0\"]", "[\"d0\", \"d1\", \"d2\"]", "groups = [\"g0\"]");
        assert_eq!(laid_over(declared.clone(), declared.clone()), declared);
        // A spare was taken, a drive replaced, a group added.
        let kept = config("[]", "[\"d0\", \"s0\", \"new\"]", "groups = [\"g0\", \"g1\"]");
        assert_eq!(laid_over(kept.clone(), declared.clone()), kept);
        // A group was leaving, and is not declared: it goes on leaving; one that is declared stays.
        let leaving = "groups = [\"g0\"]\nleaving = [\"g1\"]";
        let kept = config("[]", "[\"d0\", \"s0\", \"d2\"]", leaving);
        assert_eq!(laid_over(kept, declared.clone()).pools[0].leaving, ["g1"]);
        let kept = config("[\"s0\"]", "[\"d0\", \"d1\", \"d2\"]", "groups = [\"g1\"]\nleaving = [\"g0\"]");
        let next = laid_over(kept, declared);
        assert_eq!((next.pools[0].groups.len(), next.pools[0].leaving.len()), (2, 0));
    }
}
