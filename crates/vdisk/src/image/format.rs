//! What an image is, and what it is declared to be.

/// The format and type of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Format {
    /// Payload only.
    Raw,
    VhdFixed,
    VhdDynamic,
    VhdDifferencing,
    VhdxFixed,
    VhdxDynamic,
    VhdxDifferencing,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 7] = [
        Format::Raw,
        Format::VhdFixed,
        Format::VhdDynamic,
        Format::VhdDifferencing,
        Format::VhdxFixed,
        Format::VhdxDynamic,
        Format::VhdxDifferencing,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::VhdFixed => "vhd, fixed",
            Format::VhdDynamic => "vhd, dynamic",
            Format::VhdDifferencing => "vhd, differencing",
            Format::VhdxFixed => "vhdx, fixed",
            Format::VhdxDynamic => "vhdx, dynamic",
            Format::VhdxDifferencing => "vhdx, differencing",
        }
    }
}

/// The declared format of a file: once it is declared, no data that a guest writes to its disk changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum FileFormat {
    /// Payload only.
    Raw,
    /// VHD, fixed: the footer is behind the disk.
    VhdFixed,
    VhdDynamic,
    VhdDifferencing,
    /// VHDX: its type is in its metadata, which no guest writes.
    Vhdx,
}

impl FileFormat {
    /// All formats.
    pub const ALL: [FileFormat; 5] = [
        FileFormat::Raw,
        FileFormat::VhdFixed,
        FileFormat::VhdDynamic,
        FileFormat::VhdDifferencing,
        FileFormat::Vhdx,
    ];

    /// Its name in declarations.
    pub fn key(self) -> &'static str {
        match self {
            FileFormat::Raw => "raw",
            FileFormat::VhdFixed => "vhd-fixed",
            FileFormat::VhdDynamic => "vhd-dynamic",
            FileFormat::VhdDifferencing => "vhd-differencing",
            FileFormat::Vhdx => "vhdx",
        }
    }
}

impl std::str::FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<FileFormat, String> {
        let known = FileFormat::ALL.into_iter().find(|format| format.key() == text);
        let keys = FileFormat::ALL.map(FileFormat::key).join(", ");
        known.ok_or_else(|| format!("unknown format {text:?}: one of {keys}"))
    }
}

impl std::fmt::Display for FileFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key())
    }
}
