//! Images: those that are not served, and those that are only read.

use array::Severity;
use config::RAW_FILE_TO_DO;
use status::{Image, ImageFault, Trouble};

use super::told::trouble;

pub(super) fn of_image(image: &Image, all: &mut Vec<Trouble>) {
    let object = || format!("image {}", image.name);
    let fault = image.fault.unwrap_or_default();
    if let Some(text) = &image.trouble {
        let severity = if fault == ImageFault::FileChanged { Severity::Error } else { Severity::Warning };
        all.push(trouble(severity, object(), "image", text.clone(), to_do(fault, &image.file)));
    }
    if let Some(error) = &image.error {
        let text = format!("is not served: {error}");
        all.push(trouble(Severity::Error, object(), "unopened", text, to_do(fault, &image.file)));
    }
}

/// What to do about an image of this file.
fn to_do(fault: ImageFault, file: &str) -> String {
    match fault {
        ImageFault::FileChanged => format!("put {file} back as it was; hosts write again then"),
        ImageFault::NoRoom | ImageFault::ReadOnly => {
            format!("make room, or look at {file} with masu vdisk check")
        }
        ImageFault::Replaced => RAW_FILE_TO_DO.to_owned(),
        ImageFault::Absent => format!("bring {file} back, then restart the array"),
        ImageFault::Parent => {
            "bring that parent back, or mend it (masu vdisk check), then restart the array".to_owned()
        }
        ImageFault::Unclaimed => format!("bring the storage of {file} back: the array opens it by itself"),
        ImageFault::Unknown => format!("mend {file} (masu vdisk check), then restart the array"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What to do was found by the words of the error: a parent that was away was taken for the image itself.
    #[test]
    fn what_to_do_about_an_image_follows_its_fault_and_not_the_words_of_its_error() {
        let of = |error: &str, fault| {
            let mut image = image();
            (image.error, image.fault) = (Some(error.into()), Some(fault));
            let mut all = vec![];
            of_image(&image, &mut all);
            all.remove(0).to_do
        };
        let error = "parent base.vhdx: drive /images/base.vhdx: no such file";
        assert!(of(error, ImageFault::Parent).starts_with("bring that parent back"));
        assert_eq!(of(error, ImageFault::Absent), "bring /images/a.vhdx back, then restart the array");
        assert!(of(error, ImageFault::Unknown).starts_with("mend /images/a.vhdx (masu vdisk check)"));
        assert_eq!(of("another file", ImageFault::Replaced), RAW_FILE_TO_DO);
    }

    #[test]
    fn an_image_whose_file_is_gone_is_an_error_and_one_without_room_a_warning() {
        let of = |fault| {
            let mut image = image();
            (image.trouble, image.fault) = (Some("writes fail".into()), Some(fault));
            let mut all = vec![];
            of_image(&image, &mut all);
            (all[0].severity.clone(), all[0].to_do.clone())
        };
        let (severity, to_do) = of(ImageFault::FileChanged);
        assert!(severity == "error" && to_do.contains("put /images/a.vhdx back"), "{to_do}");
        let (severity, to_do) = of(ImageFault::NoRoom);
        assert!(severity == "warning" && to_do.starts_with("make room"), "{to_do}");
    }

    fn image() -> Image {
        let json = r#"{"name": "a", "file": "/images/a.vhdx", "controller": 0, "read_only": false, "mapped_to": [],
            "error": null, "format": "", "parents": [], "size_bytes": 0, "file_bytes": 0, "block_bytes": 512,
            "naa": "", "counters": COUNTERS}"#;
        let counters = serde_json::to_string(&status::VolumeCounters::default()).expect("counters");
        serde_json::from_str(&json.replace("COUNTERS", &counters)).expect("an image")
    }
}
