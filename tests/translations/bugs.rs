#![allow(unused)] #[no_mangle] pub extern "C" fn f() {}
