//! Commands as hosts send them: CDB in; status, sense and data out.
