//! The laboratory: loads, scenarios, counters, analysis, reports.
