//! The commands of persistent reservations to a block device. Reservations are made by the kernel's own calls
//! (`linux/pr.h`), which dm-multipath passes on to all paths; what is registered is asked by SG_IO.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::decide::{Facts, Holder};

/// `_IOW('p', number, T)`.
const fn request<T>(number: u32) -> libc::c_ulong {
    (1 << 30 | (size_of::<T>() as u32) << 16 | (b'p' as u32) << 8 | number) as libc::c_ulong
}

const IOC_PR_REGISTER: libc::c_ulong = request::<Registration>(200);
const IOC_PR_RESERVE: libc::c_ulong = request::<Reservation>(201);
const IOC_PR_PREEMPT_ABORT: libc::c_ulong = request::<Preempt>(204);
/// Whatever key this path had registered before.
const PR_FL_IGNORE_KEY: u32 = 1;
/// The kernel's number of [`super::decide::REGISTRANTS_WRITE`].
const PR_WRITE_EXCLUSIVE_REG_ONLY: u32 = 3;
/// The status of a command that conflicts with a reservation (SAM-5 5.3.1).
const RESERVATION_CONFLICT: i32 = 0x18;

#[repr(C)]
struct Registration {
    old_key: u64,
    new_key: u64,
    flags: u32,
    pad: u32,
}

#[repr(C)]
struct Reservation {
    key: u64,
    kind: u32,
    flags: u32,
}

/// The kernel calls the two keys old and new, and sends them as RESERVATION KEY and SERVICE ACTION
/// RESERVATION KEY: the first is that of the sender, the second the one that is preempted.
#[repr(C)]
struct Preempt {
    own_key: u64,
    preempted_key: u64,
    kind: u32,
    flags: u32,
}

/// A unit attention, such as the one after a preemption, is reported once for each cause.
const ATTEMPTS: usize = 5;
const SG_IO: libc::c_ulong = 0x2285;
const SG_DXFER_FROM_DEV: i32 = -3;
const TIME_MAX_MS: u32 = 10_000;
const PERSISTENT_RESERVE_IN: u8 = 0x5e;
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;
/// Room for 1,023 keys.
const REPLY_LEN: u16 = 8 + 1023 * 8;
const CHECK_CONDITION: u8 = 2;
const UNIT_ATTENTION: u8 = 6;

/// `struct sg_io_hdr` (`scsi/sg.h`).
#[repr(C)]
struct SgIo {
    interface_id: i32,
    direction: i32,
    command_len: u8,
    sense_len_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// Opens a device that no other process of this machine has. One that has ended may have it yet, with writes
/// under way.
pub(super) fn open_alone(path: &Path) -> Result<File, String> {
    let flags = libc::O_NONBLOCK | libc::O_EXCL;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = file.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "no such device".to_owned(),
        io::ErrorKind::ResourceBusy => "another process of this machine still has it".to_owned(),
        _ => format!("cannot be opened: {e}"),
    })?;
    let kind = file.metadata().map_err(|e| format!("cannot be examined: {e}"))?.file_type();
    match kind.is_block_device() {
        true => Ok(file),
        false => Err("not a block device".to_owned()),
    }
}

/// The registered keys and the reservation.
pub(super) fn facts(file: &File) -> Result<Facts, String> {
    let keys = ask(file, READ_KEYS)?;
    let reservation = ask(file, READ_RESERVATION)?;
    facts_of(&keys, &reservation).ok_or_else(|| "its list of reservations cannot be read".to_owned())
}

/// Of the parameter data of READ KEYS and READ RESERVATION; none: not complete.
fn facts_of(keys: &[u8], reservation: &[u8]) -> Option<Facts> {
    let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
    let len = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?) as usize);
    let listed = keys.get(8..8 + len(keys)?)?;
    let keys = listed.chunks_exact(8).map(number).collect::<Option<Vec<u64>>>()?;
    let holder = match len(reservation)? {
        0 => None,
        _ => Some(Holder { key: number(reservation.get(8..16)?)?, kind: reservation.get(21)? & 0x0f }),
    };
    Some(Facts { keys, holder })
}

/// PERSISTENT RESERVE IN.
fn ask(file: &File, action: u8) -> Result<Vec<u8>, String> {
    let [high, low] = REPLY_LEN.to_be_bytes();
    let command = [PERSISTENT_RESERVE_IN, action, 0, 0, 0, 0, 0, high, low, 0];
    let mut reply = vec![0u8; usize::from(REPLY_LEN)];
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let mut sense = [0u8; 64];
        let mut io = SgIo {
            interface_id: i32::from(b'S'),
            direction: SG_DXFER_FROM_DEV,
            command_len: command.len() as u8,
            sense_len_max: sense.len() as u8,
            iovec_count: 0,
            data_len: u32::from(REPLY_LEN),
            data: reply.as_mut_ptr(),
            command: command.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: TIME_MAX_MS,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            msg_status: 0,
            sense_len: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration_ms: 0,
            info: 0,
        };
        // SAFETY: `io` is a whole sg_io_hdr; command, reply and sense live through the call and have the
        // lengths that it names.
        let failed = unsafe { libc::ioctl(file.as_raw_fd(), SG_IO as _, &raw mut io) };
        if failed != 0 {
            return Err(no_reservations(&io::Error::last_os_error()));
        }
        if io.status == 0 && io.host_status == 0 && io.driver_status == 0 {
            let missing = usize::try_from(io.residual).unwrap_or(0);
            reply.truncate(reply.len().saturating_sub(missing));
            return Ok(reply);
        }
        // Fixed or descriptor format.
        let key = if sense[0] & 0x7f >= 0x72 { sense[1] } else { sense[2] } & 0x0f;
        if io.status == CHECK_CONDITION && key != UNIT_ATTENTION {
            return Err(format!(
                "it refuses PERSISTENT RESERVE IN (sense key {key}h): nodes of several machines require a \
                 device with persistent reservations"
            ));
        }
        last = format!("status {:02x}h, host status {:02x}h", io.status, io.host_status);
    }
    Err(format!("PERSISTENT RESERVE IN has failed: {last}"))
}

/// REGISTER AND IGNORE EXISTING KEY. The registration survives a loss of power of the device (APTPL).
pub(super) fn register(file: &File, own: u64) -> Result<(), String> {
    let registration = Registration { old_key: 0, new_key: own, flags: PR_FL_IGNORE_KEY, pad: 0 };
    reserved("registering", || {
        // SAFETY: the kernel reads a `struct pr_registration`, which lives through the call.
        unsafe { libc::ioctl(file.as_raw_fd(), IOC_PR_REGISTER as _, &raw const registration) }
    })
}

pub(super) fn reserve(file: &File, own: u64) -> Result<(), String> {
    let reservation = Reservation { key: own, kind: PR_WRITE_EXCLUSIVE_REG_ONLY, flags: 0 };
    reserved("reserving", || {
        // SAFETY: the kernel reads a `struct pr_reservation`, which lives through the call.
        unsafe { libc::ioctl(file.as_raw_fd(), IOC_PR_RESERVE as _, &raw const reservation) }
    })
}

/// Removes a key, takes its reservation over, and aborts its commands.
pub(super) fn preempt_and_abort(file: &File, other: u64, own: u64) -> Result<(), String> {
    let preempt = Preempt { own_key: own, preempted_key: other, kind: PR_WRITE_EXCLUSIVE_REG_ONLY, flags: 0 };
    reserved("preempting", || {
        // SAFETY: the kernel reads a `struct pr_preempt`, which lives through the call.
        unsafe { libc::ioctl(file.as_raw_fd(), IOC_PR_PREEMPT_ABORT as _, &raw const preempt) }
    })
}

/// Below 0: an error of the kernel. Above: the status of the command, which may be a unit attention.
fn reserved(what: &str, call: impl Fn() -> i32) -> Result<(), String> {
    let mut last = 0;
    for _ in 0..ATTEMPTS {
        last = call();
        match last {
            0 => return Ok(()),
            ..0 => return Err(format!("{what} failed: {}", no_reservations(&io::Error::last_os_error()))),
            // In the lowest byte of the kernel's result.
            status if status & 0xff == RESERVATION_CONFLICT => {
                return Err(format!("{what} failed: another node has taken it over meanwhile"));
            }
            _ => {}
        }
    }
    Err(format!("{what} failed: status {last:#x}"))
}

fn no_reservations(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "reservations require CAP_SYS_ADMIN and CAP_SYS_RAWIO, and a whole device, not a partition".into()
        }
        Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL) => {
            "no SCSI device with persistent reservations, which nodes of several machines require".into()
        }
        _ => e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_have_the_numbers_of_the_kernel() {
        // `_IOW('p', 200, struct pr_registration)` and so on, as a C compiler gives them.
        assert_eq!(IOC_PR_REGISTER, 0x4018_70c8);
        assert_eq!(IOC_PR_RESERVE, 0x4010_70c9);
        assert_eq!(IOC_PR_PREEMPT_ABORT, 0x4018_70cc);
        #[cfg(target_pointer_width = "64")]
        assert_eq!(size_of::<SgIo>(), 88);
    }

    #[test]
    fn keys_and_reservation_are_read_and_what_is_cut_is_no_answer() {
        let mut keys = vec![0, 0, 0, 9, 0, 0, 0, 16];
        keys.extend([1u64, 2].iter().flat_map(|key| key.to_be_bytes()));
        let mut held = vec![0, 0, 0, 9, 0, 0, 0, 16];
        held.extend(2u64.to_be_bytes());
        held.extend([0, 0, 0, 0, 0, 0x05, 0, 0]);
        let free = [0, 0, 0, 9, 0, 0, 0, 0];
        assert_eq!(facts_of(&keys, &free), Some(Facts { keys: vec![1, 2], holder: None }));
        let holder = Some(Holder { key: 2, kind: 5 });
        assert_eq!(facts_of(&keys, &held), Some(Facts { keys: vec![1, 2], holder }));
        for len in 0..keys.len() {
            assert_eq!(facts_of(&keys[..len], &free), None, "{len}");
        }
        for len in 0..22 {
            assert_eq!(facts_of(&keys, &held[..len]), None, "{len}");
        }
    }

    #[test]
    fn what_has_no_reservations_is_refused_with_a_reason() {
        let file = File::open("/dev/null").expect("opens");
        assert!(facts(&file).expect_err("refused").contains("persistent reservations"));
        assert_eq!(open_alone(Path::new("/dev/null")).expect_err("refused"), "not a block device");
        assert_eq!(open_alone(Path::new("/dev/none")).expect_err("refused"), "no such device");
    }
}
