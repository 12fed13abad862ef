//! Reports: the data of a run, written for a person (`report.html`), a machine (`results.json`) and a
//! spreadsheet (CSV).

mod contract;
mod cost;
mod shape;
mod write;

pub use contract::*;
pub use cost::{Cost, CostOf, order_by_cost};
pub use shape::check_presentation;
pub use write::{WriteError, page_text, write_csv, write_json, write_page, write_report, write_results};
