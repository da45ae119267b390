//! Apple's verbs library, opened at run time: it exists from macOS 26.2 on.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `/usr/lib/librdma.dylib` lives in the dyld shared cache only, so `dlopen` finds it where `ls` does not.
const LIBRARY_NAMES: [&CStr; 2] = [c"/usr/lib/librdma.dylib", c"librdma.dylib"];

type GetDeviceList = unsafe extern "C" fn(n_devices: *mut c_int) -> *mut *mut c_void;
type GetDeviceName = unsafe extern "C" fn(device: *mut c_void) -> *const c_char;
type FreeDeviceList = unsafe extern "C" fn(list: *mut *mut c_void);

/// The names of the library's devices, `rdma_en2` and the like; `None` without the library.
pub(super) fn device_names() -> Option<Vec<String>> {
    let library = Library::open()?;
    let list_symbol = library.symbol(c"ibv_get_device_list")?;
    let name_symbol = library.symbol(c"ibv_get_device_name")?;
    let free_symbol = library.symbol(c"ibv_free_device_list")?;
    // SAFETY: these are rdma-core's functions of those names, with the signatures of `infiniband/verbs.h`.
    let (get_list, get_name, free_list) = unsafe {
        (
            std::mem::transmute::<*mut c_void, GetDeviceList>(list_symbol),
            std::mem::transmute::<*mut c_void, GetDeviceName>(name_symbol),
            std::mem::transmute::<*mut c_void, FreeDeviceList>(free_symbol),
        )
    };
    let mut n_devices: c_int = 0;
    // SAFETY: the argument points to an int that outlives the call.
    let list = unsafe { get_list(&raw mut n_devices) };
    if list.is_null() {
        tracing::debug!("the verbs library lists no devices");
        return Some(Vec::new());
    }
    let names = (0..usize::try_from(n_devices).unwrap_or(0))
        .filter_map(|idx| {
            // SAFETY: the list has `n_devices` entries and is not freed yet; a name lives as long as its device.
            let name = unsafe { get_name(*list.add(idx)) };
            // SAFETY: a name that is not null is a C string.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
        })
        .collect();
    // SAFETY: the list came from `get_list`, and nothing of it is used any more.
    unsafe { free_list(list) };
    Some(names)
}

/// An open library. It is never closed: it starts threads and registers handlers of its own.
struct Library(*mut c_void);

impl Library {
    fn open() -> Option<Self> {
        LIBRARY_NAMES.into_iter().find_map(|name| {
            // SAFETY: the name is a C string, and the system's own library is made to be loaded so.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            (!handle.is_null()).then_some(Self(handle))
        })
    }

    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the library is open, and the name is a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}
