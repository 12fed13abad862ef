//! Lists of types that are mirrored here: serde's `with` takes single values only.

/// For each `NAME: Vec<TYPE> as "MIRROR"` (or `Option`), a module for `#[serde(with = "NAME")]`.
macro_rules! lists {
    ($($name:ident: $of:ident<$what:ty> as $mirror:literal;)*) => {$(
        mod $name {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::*;

            type List = $of<$what>;

            #[derive(Serialize)]
            struct Each<'a>(#[serde(with = $mirror)] &'a $what);

            #[derive(Deserialize)]
            struct One(#[serde(with = $mirror)] $what);

            pub(in super::super) fn serialize<S: Serializer>(
                list: &List,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                lists!(@each $of, list).serialize(serializer)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<List, D::Error> {
                let list = $of::<One>::deserialize(deserializer)?;
                Ok(lists!(@one $of, list))
            }
        }
    )*};
    (@each Vec, $list:ident) => { $list.iter().map(Each).collect::<Vec<_>>() };
    (@each Option, $list:ident) => { $list.as_ref().map(Each) };
    (@one Vec, $list:ident) => { $list.into_iter().map(|one| one.0).collect() };
    (@one Option, $list:ident) => { $list.map(|one| one.0) };
}

pub(super) use lists;
