//! What controllers at other nodes open beside the drives of their groups: spares that the owner gives them,
//! and images.

use super::*;

/// Controller 1 is that of n2, which has nothing but the volume or image of LUN 0.
fn start(parts: impl Fn(&dyn Fn(&str) -> String) -> String, lun: &str) -> Cluster {
    let dir = directory();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let parts = parts(&path);
    let text = format!(
        "target = \"{TARGET}\"\ncontrollers = 2\ncontroller_nodes = [\"n1\", \"n2\"]\n{parts}\
         [[host]]\nname = \"any\"\ninitiator = \"*\"\nluns = {{ 0 = \"{lun}\" }}\n"
    );
    let registry = path("registry");
    let mut cluster = Cluster::declared(1, dir, &text, registry);
    assert_eq!(cluster.owner(), 0);
    cluster.join();
    cluster.nodes[0].says("controller 1 runs at node n2");
    cluster
}

fn again(cluster: &Cluster, text: &str, times: usize) {
    until_within(text, 3 * WAIT, || cluster.nodes[0].log().matches(text).count() >= times);
}

#[test]
fn a_group_at_another_node_gets_a_spare_and_keeps_it_at_each_node() {
    let parts = |path: &dyn Fn(&str) -> String| {
        let drive = |name: &str| {
            format!("[[drive]]\nname = \"{name}\"\nfile = \"{}\"\nsize = \"64MiB\"\n", path(name))
        };
        format!(
            "spares = [\"s0\"]\n{}\
             [[group]]\nname = \"g1\"\nlevel = \"raid1\"\ndrives = [\"a\", \"b\"]\n\
             [[pool]]\nname = \"p1\"\ngroups = [\"g1\"]\ncontroller = 1\n\
             [[volume]]\nname = \"v1\"\npool = \"p1\"\nsize = \"16MiB\"\n",
            ["a", "b", "s0"].map(drive).concat()
        )
    };
    let mut cluster = start(parts, "v1");
    let host = Host::start(&cluster);
    fs::remove_file(cluster.dir.path().join("b")).expect("pulled");
    cluster.nodes[0].says("drive s0 replaces b");
    cluster.nodes[0].says("is in sync again");
    let declared = cluster.nodes[0].ok(&["group", "show", "g1"]);
    assert!(declared.contains("s0"), "{declared}");
    host.goes_on();
    // The owner takes it back with the spare, also from the other half alone.
    cluster.nodes[1].process.kill().expect("kill -9");
    again(&cluster, "controller 1 runs at this node", 1);
    host.goes_on();
    cluster.again(1);
    again(&cluster, "controller 1 runs at node n2", 2);
    fs::remove_file(cluster.dir.path().join("a")).expect("pulled");
    cluster.nodes[0].says("at position 0 failed");
    host.goes_on();
    let done = host.verified();
    println!("a spare at another node: a gap of {:?} in {} writes", done.gap, done.count);
}

#[test]
fn an_image_is_served_by_another_node_and_taken_back_from_it() {
    let parts = |path: &dyn Fn(&str) -> String| {
        let file = path("disk.raw");
        File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("a file");
        format!("[[image]]\nname = \"i1\"\nfile = \"{file}\"\nformat = \"raw\"\ncontroller = 1\n")
    };
    let mut cluster = start(parts, "i1");
    let host = Host::start(&cluster);
    host.goes_on();
    cluster.nodes[1].process.kill().expect("kill -9");
    again(&cluster, "controller 1 runs at this node", 1);
    host.goes_on();
    cluster.again(1);
    again(&cluster, "controller 1 runs at node n2", 2);
    host.goes_on();
    // Its lock holds as long as the node stands still.
    cluster.nodes[1].signal("-STOP");
    until("all of its threads stand still", || cluster.nodes[1].stands_still());
    cluster.nodes[0].says("image \"i1\": in use by another process");
    cluster.nodes[1].signal("-CONT");
    assert_eq!(cluster.nodes[1].ended(), Some(LOST));
    again(&cluster, "controller 1 runs at this node", 2);
    host.goes_on();
    cluster.again(1);
    again(&cluster, "controller 1 runs at node n2", 3);
    cluster.nodes[1].signal("-TERM");
    again(&cluster, "controller 1 runs at this node", 3);
    host.goes_on();
    let done = host.verified();
    println!("an image at another node: a gap of {:?} in {} writes", done.gap, done.count);
}

#[test]
fn an_image_that_other_nodes_cannot_reach_is_refused() {
    let cluster = Cluster::start(1);
    let node = &cluster.nodes[cluster.owner()];
    let file = node.dir.join("own.raw");
    File::create(&file).and_then(|file| file.set_len(1 << 20)).expect("a file");
    let output = node.command(&["image", "create", "own", &file.display().to_string(), "--format", "raw"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("a path that all nodes share"), "{said}");
}
