//! The C functions of librados and librbd, loaded when the first RBD image is opened: masu depends on
//! neither.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

const RADOS: &str = "librados.so.2";
const RBD: &str = "librbd.so.1";

/// A connection to a cluster.
pub(super) type Rados = *mut c_void;
/// A pool of a connection.
pub(super) type Ioctx = *mut c_void;
/// An open image.
pub(super) type ImageHandle = *mut c_void;
/// An operation that librbd completes.
pub(super) type Completion = *mut c_void;
/// Called on a thread of librbd when an operation has ended.
pub(super) type Completed = unsafe extern "C" fn(Completion, *mut c_void);
/// Called on a thread of librbd when an image has changed.
pub(super) type Changed = unsafe extern "C" fn(*mut c_void);

/// `rbd_lock_mode_t`: the only one there is.
pub(super) const LOCK_EXCLUSIVE: c_int = 0;
/// The feature of images that have an exclusive lock.
pub(super) const FEATURE_EXCLUSIVE_LOCK: u64 = 1 << 2;

/// `rbd_image_watcher_t`.
#[repr(C)]
pub(super) struct Watcher {
    pub(super) addr: *mut c_char,
    pub(super) id: i64,
    pub(super) cookie: u64,
}

/// `rbd_config_option_t`.
#[repr(C)]
pub(super) struct ConfigOption {
    pub(super) name: *mut c_char,
    pub(super) value: *mut c_char,
    pub(super) source: c_int,
}

struct Libraries {
    rados: Library,
    rbd: Library,
}

macro_rules! functions {
    ($($library:ident: $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, by their names in the C headers.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Honoured by clusters that are full; absent in old releases.
            pub(super) rados_set_pool_full_try: Option<unsafe extern "C" fn(Ioctx)>,
            _loaded: Libraries,
        }

        fn load() -> Result<Api, libloading::Error> {
            // SAFETY: loading runs the libraries' initialisers, which have no requirements.
            let loaded = unsafe { Libraries { rados: Library::new(RADOS)?, rbd: Library::new(RBD)? } };
            Ok(Api {
                // SAFETY: the types are those of librados.h and librbd.h, whose functions are never changed
                // under the same version of the library. The libraries stay loaded as long as the pointers.
                $($name: unsafe { *loaded.$library.get(stringify!($name))? },)*
                // SAFETY: as above.
                rados_set_pool_full_try: unsafe { loaded.rados.get("rados_set_pool_full_try").ok().map(|f| *f) },
                _loaded: loaded,
            })
        }
    };
}

functions! {
    rados: rados_create(*mut Rados, *const c_char) -> c_int;
    rados: rados_conf_read_file(Rados, *const c_char) -> c_int;
    rados: rados_conf_set(Rados, *const c_char, *const c_char) -> c_int;
    rados: rados_conf_get(Rados, *const c_char, *mut c_char, usize) -> c_int;
    rados: rados_connect(Rados) -> c_int;
    rados: rados_shutdown(Rados);
    rados: rados_ioctx_create(Rados, *const c_char, *mut Ioctx) -> c_int;
    rados: rados_ioctx_destroy(Ioctx);
    rados: rados_blocklist_add(Rados, *mut c_char, u32) -> c_int;
    rados: rados_wait_for_latest_osdmap(Rados) -> c_int;
    rbd: rbd_open(Ioctx, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
    rbd: rbd_close(ImageHandle) -> c_int;
    rbd: rbd_get_size(ImageHandle, *mut u64) -> c_int;
    rbd: rbd_get_features(ImageHandle, *mut u64) -> c_int;
    rbd: rbd_lock_acquire(ImageHandle, c_int) -> c_int;
    rbd: rbd_is_exclusive_lock_owner(ImageHandle, *mut c_int) -> c_int;
    rbd: rbd_lock_get_owners(ImageHandle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
    rbd: rbd_lock_get_owners_cleanup(*mut *mut c_char, usize);
    rbd: rbd_lock_break(ImageHandle, c_int, *const c_char) -> c_int;
    rbd: rbd_watchers_list(ImageHandle, *mut Watcher, *mut usize) -> c_int;
    rbd: rbd_watchers_list_cleanup(*mut Watcher, usize);
    rbd: rbd_config_image_list(ImageHandle, *mut ConfigOption, *mut c_int) -> c_int;
    rbd: rbd_config_image_list_cleanup(*mut ConfigOption, c_int);
    rbd: rbd_metadata_get(ImageHandle, *const c_char, *mut c_char, *mut usize) -> c_int;
    rbd: rbd_metadata_set(ImageHandle, *const c_char, *const c_char) -> c_int;
    rbd: rbd_update_watch(ImageHandle, *mut u64, Changed, *mut c_void) -> c_int;
    rbd: rbd_update_unwatch(ImageHandle, u64) -> c_int;
    rbd: rbd_aio_create_completion(*mut c_void, Completed, *mut Completion) -> c_int;
    rbd: rbd_aio_get_return_value(Completion) -> isize;
    rbd: rbd_aio_release(Completion);
    rbd: rbd_aio_read(ImageHandle, u64, usize, *mut c_char, Completion) -> c_int;
    rbd: rbd_aio_write(ImageHandle, u64, usize, *const c_char, Completion) -> c_int;
    rbd: rbd_aio_writev(ImageHandle, *const libc::iovec, c_int, u64, Completion) -> c_int;
    rbd: rbd_aio_write_zeroes(ImageHandle, u64, usize, Completion, c_int, c_int) -> c_int;
    rbd: rbd_aio_flush(ImageHandle, Completion) -> c_int;
}

/// The functions, loaded once; the error says what to install.
pub(super) fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| {
        load().map_err(|e| {
            if cfg!(target_feature = "crt-static") {
                return "a static binary cannot load Ceph's client libraries: use one that is not static".into();
            }
            let cause = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
            format!(
                "cannot load Ceph's client libraries {RADOS} and {RBD} ({cause}); install them (Debian: librbd1)"
            )
        })
    });
    loaded.as_ref().map_err(Clone::clone)
}
