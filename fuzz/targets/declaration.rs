//! Texts of `array.toml`: what is understood is written and read again as the same.
#![no_main]

use std::path::Path;

use config::{Config, DeclarationError};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check(text);
});

fn check(text: &str) {
    let parse = |text: &str| Config::parse(text, "array.toml", Path::new("/data"));
    match parse(text) {
        Ok(config) => {
            let written = config.to_text();
            match parse(&written) {
                Ok(again) => assert_eq!(again, config, "{written}"),
                Err(error) => panic!("{error}\n{written}"),
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("array.toml:"), "no place in {said:?}");
            // What a person reads is one line, whatever stood in the file.
            assert!(!said.contains('\n'), "more than one line: {said:?}");
            let DeclarationError::Syntax { place, .. } = error else { return };
            assert!((1..=text.lines().count().max(1)).contains(&place.line), "{place}");
        }
    }
}
