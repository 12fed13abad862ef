//! No descriptor left for a connection: the listener waits, and goes on. Alone in its binary, since it takes
//! all descriptors of the process.

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use world::StreamOptions;
use world_real::{Options, run};

#[test]
fn a_listener_outlives_a_lack_of_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).expect("lowers the limit");
    run(Options::default(), |world| async move {
        let listener = world.listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
        let accept = listener.accept();
        let mut taken = Vec::new();
        while let Ok(fd) = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC) {
            taken.push(fd);
        }
        // One for the near end, none for the far end.
        taken.pop();
        let near = world.connect(listener.local(), StreamOptions::default()).await.expect("connects");
        world.sleep(Duration::from_millis(50)).await;
        let Err(accept) = accept.try_now() else { panic!("accepted without a descriptor") };
        taken.clear();
        let far = accept.await.expect("accepts once there are descriptors again");
        assert_eq!(far.peer(), near.local());
    })
    .expect("runs");
}
