//! SANITIZE runs by itself, refuses what it must, and is never half done.

use std::time::Duration;

use block::BlockError;
use lu::LogicalDisk;

use super::*;
use crate::host_view::HostView;
use crate::request::{TaskFunction, TaskOutcome};

const ERASE: &str = "48 02 00 00 00 00 00 0000 00";
/// Overwrite with a list of 8 bytes, IMMED.
const OVERWRITE: &str = "48 81 00 00 00 00 00 0008 00";

#[test]
fn block_erase_unmaps_everything() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, "2a 00 00000000 00 0100 00", &pattern(1, 256), "good").await;
        check(&host, ERASE, &[], "good").await;
        assert_eq!(b.disk.pages_used(), 0);
        check(&host, "48 42", &[], "5/2400 cdb 1.6").await;
        check(&host, "48 02 00 01", &[], "5/2400 cdb 3.0").await;
        check(&host, "48 02 00 00 00 00 00 0008 00", &[0; 8], "5/2400 cdb 7").await;
        check(&host, "48 1f 00 00 00 00 00 0008 00", &[0; 8], "5/2400 cdb 7").await;
        check(&host, "48 1f", &[], "good").await;
        // A cryptographic erase would need keys to forget.
        check(&host, "48 03", &[], "5/2400 cdb 1.4").await;
        check(&host, "48 00", &[], "5/2400 cdb 1.4").await;
    });
}

#[test]
fn overwrite_runs_for_its_time_whatever_happens_to_the_host() {
    bench(async |b| {
        let host = b.host(1).await;
        check(&host, OVERWRITE, &hex("03 00 0004 aabbccdd"), "good").await;
        b.world.sleep(Duration::from_millis(500)).await;
        check(&host, "00", &[], "2/041b").await;
        check(&host, "28 00 00000000 00 0001 00", &[], "2/041b").await;
        check(&host, "1b 00 00 00 01 00", &[], "2/041b").await;
        check(&host, ERASE, &[], "2/041b").await;
        check(&host, "12 00 00 0024 00", &[], "good").await;
        let sense = check(&host, "03 00 00 00 ff 00", &[], "good").await;
        let done = u16::from_be_bytes([sense[16], sense[17]]);
        assert_eq!((sense_text(&sense).as_str(), sense[15]), ("2/041b", 0x80));
        assert!(done > 10_000 && done < 25_000, "a quarter of three passes: {done}");
        assert_eq!(host.manage(TaskFunction::LunReset(Lun(0))).await, TaskOutcome::Complete);
        drop(host);
        let host = b.host_during_sanitize(2).await;
        b.world.sleep(Duration::from_secs(3)).await;
        check(&host, "00", &[], "good").await;
        let last = check(&host, "28 00 0000ffff 00 0001 00", &[], "good").await;
        assert_eq!(last, hex("aabbccdd").repeat(128));
    });
}

#[test]
fn abort_task_ends_the_wait_but_not_the_sanitize() {
    bench(async |b| {
        let host = Rc::new(b.host(1).await);
        let (sender, ended) = (host.clone(), Rc::new(std::cell::Cell::new(false)));
        let seen = ended.clone();
        b.world.spawn(async move {
            let mut request = request("48 01 00 00 00 00 00 0008 00", &hex("03 00 0004 aabbccdd"));
            request.tag = 77;
            seen.set(send(&sender, 0, request).await.0 == "aborted");
        });
        b.world.sleep(Duration::from_millis(100)).await;
        for tag in [5, 77] {
            assert!(!ended.get());
            assert_eq!(host.manage(TaskFunction::AbortTask(Lun(0), tag)).await, TaskOutcome::Complete);
        }
        b.world.sleep(Duration::from_millis(100)).await;
        assert!(ended.get());
        check(&host, "00", &[], "2/041b").await;
        b.world.sleep(Duration::from_secs(3)).await;
        check(&host, "00", &[], "good").await;
    });
}

impl Bench {
    async fn host_during_sanitize(&self, number: u64) -> View<ThinMemory> {
        let host = self.host(number).await;
        check(&host, "00", &[], "2/041b").await;
        host
    }
}

#[test]
fn overwrite_parameters_are_checked() {
    bench(async |b| {
        let host = b.host(1).await;
        for (len, list, want) in [
            (0, "", "5/2400 cdb 7"),
            (4, "01000000", "5/2400 cdb 7"),
            (517, "01000200", "5/2400 cdb 7"),
            (8, "00 00 0004 00000000", "5/2600 list 0.4"),
            (8, "01 00 0000 00000000", "5/2600 list 2"),
            (8, "01 00 0005 00000000", "5/2600 list 2"),
            (8, "21 00 0004 00000000", "5/2600 list 0.6"),
            (8, "01 00 0004", "5/1a00"),
        ] {
            check(&host, &format!("48 01 00 00 00 00 00 {len:04x} 00"), &hex(list), want).await;
        }
        // Inverted in every pass but the last.
        check(&host, "48 01 00 00 00 00 00 0005 00", &hex("82 00 0001 0f"), "good").await;
        assert_eq!(check(&host, "28 00 00000000 00 0001 00", &[], "good").await, [0x0f; BLOCK]);
    });
}

#[test]
fn a_sanitize_that_fails_or_loses_power_keeps_the_medium_closed() {
    bench(async |b| {
        let host = b.host(1).await;
        b.disk.fail_with(Some(BlockError::Failed { cause: "x".into() }));
        check(&host, "48 22", &[], "3/3103").await;
        b.disk.fail_with(None);
        check(&host, "28 00 00000000 00 0001 00", &[], "3/3103").await;
        check(&host, "48 1f", &[], "good").await;
        check(&host, "28 00 00000000 00 0001 00", &[], "good").await;
        b.disk.fail_with(Some(BlockError::Failed { cause: "x".into() }));
        check(&host, ERASE, &[], "3/3103").await;
        b.disk.fail_with(None);
        check(&host, "48 1f", &[], "3/3103").await;
        assert!(b.disk.load_record("sanitize").is_some_and(|r| !r.is_empty()));
        let again = Bench::on(b.world.clone(), b.disk.clone());
        let host = again.host(2).await;
        check(&host, "00", &[], "3/3103").await;
        check(&host, ERASE, &[], "good").await;
        check(&host, "00", &[], "good").await;
        let again = Bench::on(b.world.clone(), b.disk.clone());
        check(&again.host(3).await, "00", &[], "good").await;
    });
}
