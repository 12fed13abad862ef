//! File servers: the load that clients put on them (`masu load fileserver`).

pub mod load;
