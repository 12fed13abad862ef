//! What a prediction says.

/// A value with its band.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Band {
    /// The 5 % quantile.
    pub low: f64,
    pub median: f64,
    /// The 95 % quantile.
    pub high: f64,
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Forecast {
    /// The most servers that were measured.
    pub measured_to: u32,
    /// From one server on, as far as it goes, in order.
    pub points: Vec<Point>,
    /// Numbers of servers within the measured range that have no forecast, and why.
    pub gaps: Vec<(u32, String)>,
    /// Every resource's demand.
    pub demands: Vec<Demand>,
    /// What ends it; none where that lies beyond the numbers of servers that have a forecast.
    pub ends: Option<End>,
    /// What leaving the last points out gave; none with too few.
    pub validation: Option<Validation>,
    /// The number of servers from which there is no forecast, and why.
    pub refused: Option<(u32, String)>,
    /// What else should be known.
    pub notes: Vec<String>,
}

impl Forecast {
    /// With the rows of so many servers at most, where more were measured.
    #[must_use]
    pub fn upto(mut self, servers: u32) -> Forecast {
        self.points.retain(|point| point.servers <= servers);
        self.gaps.retain(|(gap, _)| *gap <= servers);
        self
    }
}

/// Where the value of a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// So many servers were run: the mean of their windows.
    Measured,
    /// Fewer and more were run.
    Between {
        /// The next number of servers below that was run.
        low: u32,
        /// The next above.
        high: u32,
    },
    /// Beyond everything that was run.
    Beyond,
}

/// With so many servers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Point {
    /// How many.
    pub servers: u32,
    /// Measured, or forecast.
    pub basis: Basis,
    /// Of a forecast between two measured numbers that lies outside of both: why.
    pub why_outside: Option<String>,
    /// I/Os per second of all.
    pub iops: Band,
    /// What is used most.
    pub resource: String,
    /// Of all it can, what it gives.
    pub used: f64,
}

/// What an I/O costs a resource.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Demand {
    pub resource: String,
    /// Of the resource's time, with the most servers measured.
    pub us: Band,
    /// Whether it follows each server's share of the cache.
    pub with_share: bool,
    /// The utilisation with the most servers measured.
    pub utilisation: f64,
    /// Why it was rejected.
    pub rejected: Option<String>,
}

/// What ends it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct End {
    pub resource: String,
    /// With how many servers it gives all it can, if each one asks for what it gets now.
    pub servers: u32,
    /// Of all it can, what it gives with the most servers measured.
    pub used: f64,
}

/// A prediction of what was measured, too.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Validation {
    /// Fitted on so many servers and fewer.
    pub fitted_to: u32,
    /// The points that were left out.
    pub points: Vec<Checked>,
    /// Why it failed altogether.
    pub refused: Option<String>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Checked {
    pub servers: u32,
    /// What was measured.
    pub measured: f64,
    /// What was predicted.
    pub predicted: Band,
}

impl Checked {
    /// How far the median is off, of what was measured.
    pub fn error(&self) -> f64 {
        self.predicted.median / self.measured - 1.0
    }

    /// Whether the band holds it.
    pub fn is_within(&self) -> bool {
        (self.predicted.low..=self.predicted.high).contains(&self.measured)
    }
}
