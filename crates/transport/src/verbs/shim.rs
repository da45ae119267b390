//! `libibverbs` without linking to it: the functions that the `ibverbs` crate calls, each forwarding to the library
//! that was opened at run time.
//!
//! Because the program itself defines them, the linker leaves `libibverbs.so.1` out of what the program needs (rustc
//! links with `--as-needed`; a test looks), so it starts on machines without rdma-core and [`is_available`] says
//! whether that is installed.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// Whether the library is here with every function that is forwarded. Ask before any use of the `ibverbs` crate.
pub(super) fn is_available() -> bool {
    functions().is_some()
}

type Pointer = *mut c_void;

/// Defines each function under its C name, and a table with a field for each.
macro_rules! forward {
    ($($name:ident ( $($arg:ident : $kind:ty),* ) -> $result:ty;)*) => {
        #[derive(Clone, Copy)]
        struct Functions { $( $name: unsafe extern "C" fn($($kind),*) -> $result, )* }

        /// Opens the library and finds every function, once. It stays open: devices it has handed out point into it.
        fn functions() -> Option<&'static Functions> {
            static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
            FUNCTIONS.get_or_init(|| {
                // SAFETY: the name is a C string; the library's initialisers are rdma-core's, made to be loaded so.
                let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if library.is_null() {
                    return None;
                }
                Some(Functions { $( $name: {
                    let symbol = concat!(stringify!($name), "\0");
                    // SAFETY: `library` is open, and `symbol` ends with a zero.
                    let address = unsafe { libc::dlsym(library, symbol.as_ptr().cast()) };
                    if address.is_null() {
                        return None;
                    }
                    // SAFETY: this is the function of that name in libibverbs' first ABI, whose signature in
                    // `infiniband/verbs.h` is the one given below, with every pointer as `void *`.
                    unsafe { std::mem::transmute::<Pointer, unsafe extern "C" fn($($kind),*) -> $result>(address) }
                }, )* })
            }).as_ref()
        }

        $(
            // SAFETY: no other library of this program defines the name: libibverbs itself is not linked to.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
                let functions = functions().expect("callers ask `is_available` first");
                // SAFETY: the caller keeps the C function's contract, and its arguments pass through unchanged.
                unsafe { (functions.$name)($($arg),*) }
            }
        )*
    };
}

forward! {
    ibv_get_device_list(n_devices: *mut c_int) -> Pointer;
    ibv_free_device_list(list: Pointer) -> ();
    ibv_get_device_name(device: Pointer) -> *const c_char;
    ibv_get_device_guid(device: Pointer) -> u64;
    ibv_get_device_index(device: Pointer) -> c_int;
    ibv_open_device(device: Pointer) -> Pointer;
    ibv_close_device(context: Pointer) -> c_int;
    ibv_query_port(context: Pointer, port: u8, attributes: Pointer) -> c_int;
    _ibv_query_gid_table(context: Pointer, entries: Pointer, n_max: usize, flags: u32, entry_bytes: usize) -> isize;
    ibv_alloc_pd(context: Pointer) -> Pointer;
    ibv_dealloc_pd(domain: Pointer) -> c_int;
    ibv_reg_mr(domain: Pointer, address: Pointer, n_bytes: usize, access: c_int) -> Pointer;
    ibv_dereg_mr(region: Pointer) -> c_int;
    ibv_create_cq(context: Pointer, n_entries: c_int, user: Pointer, channel: Pointer, vector: c_int) -> Pointer;
    ibv_destroy_cq(queue: Pointer) -> c_int;
    ibv_create_qp(domain: Pointer, attributes: Pointer) -> Pointer;
    ibv_destroy_qp(pair: Pointer) -> c_int;
    ibv_modify_qp(pair: Pointer, attributes: Pointer, mask: c_int) -> c_int;
}
