//! The UI's types are those of the API: `ui/src/api/types.gen.ts` is made from `api::wire`.
//!
//! After a change there, `UPDATE=1 cargo nextest run -p scenarios bindings` writes the file anew.

use std::path::Path;

#[test]
fn the_uis_types_are_those_of_the_api() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/api/types.gen.ts");
    let generated = api::bindings::typescript();
    if std::env::var_os("UPDATE").is_some_and(|value| !value.is_empty()) {
        std::fs::write(&file, &generated).expect("the UI's sources are ours to write");
    }
    let found = std::fs::read_to_string(&file).expect("the UI has its types");
    assert!(found == generated, "{} is out of date: run with UPDATE=1, then look at the UI", file.display());
}
