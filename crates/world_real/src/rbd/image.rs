//! An open image and its connection to the cluster, as plain calls that block: for helper threads only.
//!
//! Every image has a connection of its own: a fence blocklists a connection, and must not take the other
//! drives of the holder with it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use world::RbdImage;

use super::library::{
    Api, ConfigOption, FEATURE_EXCLUSIVE_LOCK, ImageHandle, Ioctx, LOCK_EXCLUSIVE, Rados, Watcher, api,
};

/// How long a fenced client stays blocklisted: longer than any process is paused. Ceph's usual hour is not.
pub(super) const BLOCKLIST_SECS: u32 = 2 * 365 * 24 * 3600;

/// Options that masu sets, over those of the configuration file. librbd has no cache: masu has its own above,
/// and a write that completes is then on all replicas.
const OPTIONS: [(&CStr, &CStr); 5] = [
    (c"rbd_cache", c"false"),
    (c"rbd_persistent_cache_mode", c"disabled"),
    // The cluster's time: librbd 16.2 sends any other in a form that the monitors refuse.
    (c"rbd_blocklist_expire_seconds", c"0"),
    // Seconds. Reads and writes have no limit here: they have masu's deadlines, and go on after a silence.
    (c"client_mount_timeout", c"10"),
    (c"rados_mon_op_timeout", c"10"),
];

/// Whether librbd blocklists a client whose lock it breaks. Its entry would replace that of [`Image::fence`],
/// and end after an hour.
const BLOCKLISTS: &CStr = c"rbd_blocklist_on_break_lock";

/// The threads on which a connection ends operations, their number as librados ships it, and masu's. An image
/// has a connection of its own: a second thread adds a switch between threads to each operation, and no work
/// of other images. With one, a read of 4 KiB at depth 32 costs masu 26 us of processor time in place of 38
/// (`make ceph-bench`).
const THREADS: (&CStr, &CStr, &CStr) = (c"librados_thread_count", c"2", c"1");

/// What an image is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reads and writes, with the lock.
    Use,
    /// [`Image::fence`] alone.
    Fence,
}

/// Watchers and owners of one image that are read; more is an error.
const CLIENTS_MAX: usize = 64;
/// More options than librbd has for images.
const OPTIONS_MAX: usize = 512;
/// Longest value of an option that is read, and the byte 0 at its end.
const OPTION_LEN_MAX: usize = 64;
/// Longest value of a piece of metadata that is read.
const METADATA_LEN_MAX: usize = 1024;

/// An error of librados or librbd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) i32);

impl Errno {
    pub(super) fn text(self) -> String {
        io::Error::from_raw_os_error(self.0).to_string()
    }
}

fn check(result: c_int) -> Result<c_int, Errno> {
    if result < 0 { Err(Errno(-result)) } else { Ok(result) }
}

/// A text without the byte 0.
fn c_text(text: impl AsRef<[u8]>) -> Result<CString, String> {
    CString::new(text.as_ref()).map_err(|_| "a name contains a zero byte".to_owned())
}

/// A string of a library, copied.
///
/// # Safety
/// `text` is null or a C string that lives through the call.
unsafe fn copied(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A connection to a cluster.
struct Cluster {
    api: &'static Api,
    rados: Rados,
}

impl Cluster {
    fn connect(spec: &RbdImage, purpose: Purpose) -> Result<Cluster, String> {
        let api = api()?;
        let user = spec.user.as_deref().map(c_text).transpose()?;
        let conf = spec.conf.as_ref().map(|path| c_text(path.as_os_str().as_bytes())).transpose()?;
        let or_null = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let mut rados = ptr::null_mut();
        // SAFETY: `rados` is room for the handle; the name is null or a C string.
        check(unsafe { (api.rados_create)(&raw mut rados, or_null(&user)) })
            .map_err(|e| format!("cannot prepare a Ceph client: {}", e.text()))?;
        let cluster = Cluster { api, rados };
        // SAFETY: the handle was just created; the path is null or a C string.
        check(unsafe { (api.rados_conf_read_file)(rados, or_null(&conf)) }).map_err(|e| {
            match &spec.conf {
                Some(path) => format!("cannot read the Ceph configuration {}: {}", path.display(), e.text()),
                None => "no Ceph configuration found (/etc/ceph/ceph.conf); name it with conf".to_owned(),
            }
        })?;
        let blocklists = if purpose == Purpose::Fence { c"false" } else { c"true" };
        for (name, value) in OPTIONS.into_iter().chain([(BLOCKLISTS, blocklists)]) {
            // SAFETY: the handle is valid, and both are C strings. An option that a release does not have is
            // refused, and is then not needed.
            let _ = unsafe { (api.rados_conf_set)(rados, name.as_ptr(), value.as_ptr()) };
        }
        let (name, shipped, own) = THREADS;
        // Another number is that of the configuration file.
        if cluster.option(name).as_deref() == Some(shipped) {
            // SAFETY: as above.
            let _ = unsafe { (api.rados_conf_set)(rados, name.as_ptr(), own.as_ptr()) };
        }
        // SAFETY: the handle is valid.
        check(unsafe { (api.rados_connect)(rados) }).map_err(|e| connect_error(spec, e))?;
        Ok(cluster)
    }

    /// An option of the client; `None`: this release does not have it.
    fn option(&self, name: &CStr) -> Option<CString> {
        let mut value = [0u8; OPTION_LEN_MAX];
        // SAFETY: the handle is valid, the name is a C string, and `value` is room for its length.
        let got = unsafe {
            (self.api.rados_conf_get)(self.rados, name.as_ptr(), value.as_mut_ptr().cast(), value.len())
        };
        check(got).ok()?;
        CStr::from_bytes_until_nul(&value).ok().map(CStr::to_owned)
    }
}

fn connect_error(spec: &RbdImage, e: Errno) -> String {
    let user = spec.user.as_deref().unwrap_or("admin");
    match e.0 {
        libc::ETIMEDOUT => "the monitors of the Ceph cluster do not answer within 10 s".to_owned(),
        libc::EACCES | libc::EPERM => {
            format!("the Ceph cluster refuses the user client.{user}; check its keyring")
        }
        libc::ENOENT => format!("no key of the Ceph user client.{user} found; add its keyring"),
        _ => format!("cannot connect to the Ceph cluster: {}", e.text()),
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, connected or not, and nothing uses it any more: pool and image are
        // closed before.
        unsafe { (self.api.rados_shutdown)(self.rados) };
    }
}

/// An open image. Closing blocks: drop it on a helper thread.
pub(super) struct Image {
    api: &'static Api,
    handle: ImageHandle,
    ioctx: Ioctx,
    cluster: Cluster,
}

// SAFETY: librados and librbd lock their handles themselves; any thread may call with them.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// Connects and opens for reading and writing. Takes no lock.
    pub(super) fn open(spec: &RbdImage, purpose: Purpose) -> Result<Image, String> {
        let (pool, name) = (c_text(&spec.pool)?, c_text(&spec.image)?);
        let cluster = Cluster::connect(spec, purpose)?;
        let api = cluster.api;
        let mut ioctx = ptr::null_mut();
        // SAFETY: the cluster is connected, the name is a C string, and `ioctx` is room for the handle.
        check(unsafe { (api.rados_ioctx_create)(cluster.rados, pool.as_ptr(), &raw mut ioctx) }).map_err(
            |e| match e.0 {
                libc::ENOENT => format!("the Ceph cluster has no pool {}", spec.pool),
                _ => format!("cannot open the Ceph pool {}: {}", spec.pool, e.text()),
            },
        )?;
        if let Some(full_try) = api.rados_set_pool_full_try {
            // SAFETY: the pool is open. A write to a full pool is then an error; otherwise it waits for ever.
            unsafe { full_try(ioctx) };
        }
        let mut handle = ptr::null_mut();
        // SAFETY: the pool is open, the name is a C string, `handle` is room for the image.
        let opened = unsafe { (api.rbd_open)(ioctx, name.as_ptr(), &raw mut handle, ptr::null()) };
        if let Err(e) = check(opened) {
            // SAFETY: the pool was opened above and is used no more.
            unsafe { (api.rados_ioctx_destroy)(ioctx) };
            return Err(match e.0 {
                libc::ENOENT => format!("no such image in the Ceph pool {}", spec.pool),
                libc::EACCES | libc::EPERM => "no permission to open the image".to_owned(),
                libc::EROFS => "the image is read-only (a snapshot, or a mirror's secondary)".to_owned(),
                libc::ESHUTDOWN => "this client is blocklisted by the Ceph cluster".to_owned(),
                _ => format!("cannot open the image: {}", e.text()),
            });
        }
        Ok(Image { api, handle, ioctx, cluster })
    }

    pub(super) fn api(&self) -> &'static Api {
        self.api
    }

    pub(super) fn handle(&self) -> ImageHandle {
        self.handle
    }

    pub(super) fn len_bytes(&self) -> Result<u64, Errno> {
        let mut len = 0;
        // SAFETY: the image is open, and `len` is room for the size.
        check(unsafe { (self.api.rbd_get_size)(self.handle, &raw mut len) })?;
        Ok(len)
    }

    pub(super) fn has_exclusive_lock(&self) -> Result<bool, Errno> {
        let mut features = 0;
        // SAFETY: the image is open, and `features` is room for the bits.
        check(unsafe { (self.api.rbd_get_features)(self.handle, &raw mut features) })?;
        Ok(features & FEATURE_EXCLUSIVE_LOCK != 0)
    }

    /// Takes the exclusive lock. From then on librbd refuses to hand it over when another client asks: an
    /// acquisition by this call replaces the cooperative policy.
    pub(super) fn acquire(&self) -> Result<(), Errno> {
        // SAFETY: the image is open.
        check(unsafe { (self.api.rbd_lock_acquire)(self.handle, LOCK_EXCLUSIVE) }).map(|_| ())
    }

    /// Asks the cluster whether this client has the lock.
    pub(super) fn is_owner(&self) -> Result<bool, Errno> {
        let mut is_owner = 0;
        // SAFETY: the image is open, and `is_owner` is room for the answer.
        check(unsafe { (self.api.rbd_is_exclusive_lock_owner)(self.handle, &raw mut is_owner) })?;
        Ok(is_owner != 0)
    }

    /// The address of the client that has the lock.
    pub(super) fn owner(&self) -> Result<Option<String>, Errno> {
        let mut owners = [ptr::null_mut::<c_char>(); 1];
        let (mut mode, mut count) = (0, owners.len());
        // SAFETY: the image is open, and the arguments are room for the mode, `count` owners and their
        // number.
        let found = unsafe {
            (self.api.rbd_lock_get_owners)(self.handle, &raw mut mode, owners.as_mut_ptr(), &raw mut count)
        };
        match check(found) {
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        // SAFETY: the call filled in as many strings as it says, which are freed right after the copy.
        let owner = (count > 0).then(|| unsafe { copied(owners[0]) });
        // SAFETY: these are the strings of the call above.
        unsafe { (self.api.rbd_lock_get_owners_cleanup)(owners.as_mut_ptr(), count) };
        Ok(owner)
    }

    /// The addresses of the clients that have the image open and answer the cluster.
    pub(super) fn watchers(&self) -> Result<Vec<String>, Errno> {
        let mut watchers = Vec::with_capacity(CLIENTS_MAX);
        watchers.resize_with(CLIENTS_MAX, || Watcher { addr: ptr::null_mut(), id: 0, cookie: 0 });
        let mut count = watchers.len();
        // SAFETY: the image is open, and `watchers` is room for `count` of them.
        check(unsafe { (self.api.rbd_watchers_list)(self.handle, watchers.as_mut_ptr(), &raw mut count) })?;
        // SAFETY: the call filled in `count` watchers, whose addresses are freed after the copy.
        let found = watchers[..count].iter().map(|w| unsafe { copied(w.addr) }).collect();
        // SAFETY: these are the watchers of the call above.
        unsafe { (self.api.rbd_watchers_list_cleanup)(watchers.as_mut_ptr(), count) };
        Ok(found)
    }

    /// Of an image that was opened for it: blocklists a client, so that the OSDs refuse it, and then breaks
    /// its lock.
    pub(super) fn fence(&self, owner: &str) -> Result<(), String> {
        let address = c_text(owner)?;
        let text = |what: &str, e: Errno| match e.0 {
            libc::EACCES | libc::EPERM => {
                format!("no permission {what}; the Ceph user needs the capability \"mon 'profile rbd'\"")
            }
            _ => format!("{what} failed: {}", e.text()),
        };
        // SAFETY: the cluster is connected; the address is a C string, which the call does not change.
        let added = unsafe {
            (self.api.rados_blocklist_add)(self.cluster.rados, address.as_ptr().cast_mut(), BLOCKLIST_SECS)
        };
        check(added).map_err(|e| text("to blocklist the holder", e))?;
        // What this client sends from now on carries the map with the entry: an OSD that served it has it.
        // SAFETY: the cluster is connected.
        check(unsafe { (self.api.rados_wait_for_latest_osdmap)(self.cluster.rados) })
            .map_err(|e| text("to read the map of the OSDs", e))?;
        // SAFETY: the image is open, and the address a C string.
        match check(unsafe { (self.api.rbd_lock_break)(self.handle, LOCK_EXCLUSIVE, address.as_ptr()) }) {
            // It let go meanwhile, or somebody else broke the lock.
            Ok(_) | Err(Errno(libc::ENOENT)) => Ok(()),
            Err(Errno(libc::EBUSY)) => Err("another client took the lock meanwhile; repeat".to_owned()),
            Err(e) => Err(text("to break the lock", e)),
        }
    }

    /// The value of an option of librbd for this image; `None`: this release does not have it.
    pub(super) fn option(&self, name: &str) -> Result<Option<String>, Errno> {
        let mut options = Vec::with_capacity(OPTIONS_MAX);
        let none = || ConfigOption { name: ptr::null_mut(), value: ptr::null_mut(), source: 0 };
        options.resize_with(OPTIONS_MAX, none);
        let mut count = OPTIONS_MAX as c_int;
        // SAFETY: the image is open, and `options` is room for `count` of them.
        check(unsafe {
            (self.api.rbd_config_image_list)(self.handle, options.as_mut_ptr(), &raw mut count)
        })?;
        let found = &options[..usize::try_from(count).unwrap_or_default()];
        // SAFETY: the call filled in `count` options, whose strings are freed after the copies.
        let value =
            found.iter().find(|o| unsafe { copied(o.name) } == name).map(|o| unsafe { copied(o.value) });
        // SAFETY: these are the options of the call above.
        unsafe { (self.api.rbd_config_image_list_cleanup)(options.as_mut_ptr(), count) };
        Ok(value)
    }

    /// A piece of the image's metadata; `None` if it has none of this name, or it cannot be read.
    pub(super) fn metadata(&self, key: &CStr) -> Option<String> {
        let mut value = [0u8; METADATA_LEN_MAX];
        let mut len = value.len();
        // SAFETY: the image is open, the key is a C string, and `value` is room for `len` bytes.
        let got = unsafe {
            (self.api.rbd_metadata_get)(self.handle, key.as_ptr(), value.as_mut_ptr().cast(), &raw mut len)
        };
        check(got).ok()?;
        CStr::from_bytes_until_nul(&value).ok().map(|text| text.to_string_lossy().into_owned())
    }

    /// Stores a piece of metadata with the image.
    pub(super) fn set_metadata(&self, key: &CStr, value: &str) -> Result<(), String> {
        let value = c_text(value)?;
        // SAFETY: the image is open, and both are C strings.
        let set = unsafe { (self.api.rbd_metadata_set)(self.handle, key.as_ptr(), value.as_ptr()) };
        check(set).map(|_| ()).map_err(Errno::text)
    }
}

impl Drop for Image {
    /// Waits for what is in flight, releases the lock, and ends the connection.
    fn drop(&mut self) {
        // SAFETY: the image is open, and the operations' owner submits nothing any more (`Flights::close`).
        unsafe { (self.api.rbd_close)(self.handle) };
        // SAFETY: the pool was opened with the image, and nothing uses it any more.
        unsafe { (self.api.rados_ioctx_destroy)(self.ioctx) };
    }
}
