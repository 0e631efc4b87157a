//! The C interface: the only unsafe code.
#![expect(unsafe_code, reason = "C hands over pointers and takes one back")]

use crate::calls::{self, Arguments};
use crate::watch::watched;
use serde_json::json;
use std::ffi::{CStr, CString, c_char, c_int};

/// Calls a function by its name with `count` texts in UTF-8 by name and returns JSON in UTF-8: `ok`
/// with what it answers, or `error` with its text and `kind`. `stop` is called on this thread about
/// ten times a second and ends the work with anything but 0.
///
/// # Safety
/// `name` and the `count` pointers of `keys` and `values` lead to texts that end with a zero and
/// stay as they are during the call. What is returned must be given to [`consenso_free`] once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consenso_call(
    name: *const c_char,
    count: usize,
    keys: *const *const c_char,
    values: *const *const c_char,
    stop: Option<extern "C" fn() -> c_int>,
) -> *mut c_char {
    // SAFETY: the caller promises texts that end with a zero.
    let text = |at: *const c_char| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
    let given = (0..count).map(|k| {
        // SAFETY: the caller promises `count` pointers in each.
        let (key, value) = unsafe { (*keys.add(k), *values.add(k)) };
        (text(key), text(value))
    });
    let (name, arguments) = (text(name), Arguments::new(given));
    let asked = || stop.is_some_and(|stop| stop() != 0);
    let found = watched(asked, |watch| calls::call(&name, &arguments, watch));
    let answer = match found {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error.text(), "kind": error.kind() }),
    };
    let empty = |_| CString::from(c"{\"error\": \"\", \"kind\": \"consenso_failure\"}");
    // JSON writes the character 0 as six others: there is none in it.
    CString::new(answer.to_string()).unwrap_or_else(empty).into_raw()
}

/// Takes back what [`consenso_call`] returned.
///
/// # Safety
/// `answer` is what [`consenso_call`] returned, and is given once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn consenso_free(answer: *mut c_char) {
    if !answer.is_null() {
        // SAFETY: the caller promises a pointer that `CString::into_raw` made.
        drop(unsafe { CString::from_raw(answer) });
    }
}

/// A call from Rust, as C makes it: for tests.
#[cfg(test)]
pub(crate) fn called(name: &str, given: &[(&str, &str)]) -> serde_json::Value {
    let text = |t: &str| CString::new(t).expect("no zero");
    let (keys, values): (Vec<_>, Vec<_>) = given.iter().map(|(k, v)| (text(k), text(v))).unzip();
    let at = |all: &[CString]| all.iter().map(|t| t.as_ptr()).collect::<Vec<_>>();
    let (name, keys, values) = (text(name), (at(&keys), keys), (at(&values), values));
    // SAFETY: all texts live until the end of this function.
    unsafe {
        let count = given.len();
        let answer = consenso_call(name.as_ptr(), count, keys.0.as_ptr(), values.0.as_ptr(), None);
        let read = serde_json::from_slice(CStr::from_ptr(answer).to_bytes()).expect("JSON");
        consenso_free(answer);
        read
    }
}
