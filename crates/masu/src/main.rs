//! masu: a storage array for virtual machines that proves what it does.

fn main() {}
