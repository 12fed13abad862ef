//! What a closed network is made of, and what can be said of it without solving it.

/// Customers at most: sixteen servers with 256 I/Os outstanding each.
pub(super) const CUSTOMERS_MAX: usize = 4096;
/// Stations at most; more than the drives, ports and cores of any array here.
const STATIONS_MAX: usize = 256;

/// Customers, and the stations that each of them visits.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The time from one answer to the next request.
    pub think_s: f64,
    /// Where they queue.
    pub stations: Vec<Station>,
}

/// Where customers queue.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Station {
    pub name: String,
    /// How long one customer, alone, is served in all visits of a round.
    pub demand_s: f64,
    /// How its rate depends on its queue.
    pub rate: Rate,
}

/// How the rate of a station depends on how many customers it has.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// One server: not at all.
    Single,
    /// Several alike.
    Servers(u32),
    /// Relative to one customer's: with 1, 2, … customers. The last one holds beyond. A drive that sorts its
    /// queue is like this.
    Dependent(Vec<f64>),
}

impl Station {
    /// With one server.
    pub fn single(name: &str, demand_s: f64) -> Station {
        Station { name: name.to_owned(), demand_s, rate: Rate::Single }
    }

    /// The rate with so many customers, relative to that with one.
    pub(super) fn rate(&self, customers: usize) -> f64 {
        match &self.rate {
            Rate::Single => 1.0,
            Rate::Servers(servers) => f64::from(*servers).min(customers as f64),
            Rate::Dependent(rates) => rates.get(customers - 1).or(rates.last()).copied().unwrap_or(1.0),
        }
    }
}

/// Between which throughputs a network must be, whatever the distributions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Rounds per second at most.
    pub most_per_s: f64,
    /// How many customers saturate the busiest station if nobody ever waits before: where the two upper
    /// bounds meet.
    pub knee: f64,
}

/// A network that cannot be solved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum NetworkError {
    /// A time that is none.
    #[error("invalid value {value_s} s of {what}: must be a number from 0 up")]
    Time {
        what: String,
        /// What it is.
        value_s: f64,
    },
    /// A rate that is none.
    #[error("station {name}: invalid rates: must be numbers above 0, and the first one 1")]
    Rate {
        /// The station.
        name: String,
    },
    /// Nothing takes any time, or there are too many stations.
    #[error(
        "invalid network of {count} stations with {total_s} s in total: must have a service time above 0, \
         and at most {STATIONS_MAX} stations"
    )]
    Empty {
        /// Stations.
        count: usize,
        /// Think time and demands.
        total_s: f64,
    },
    /// Too many.
    #[error("{0} customers: there may be {CUSTOMERS_MAX}")]
    Customers(usize),
}

impl Network {
    /// Whether it can be solved for so many customers.
    pub(super) fn check(&self, customers: usize) -> Result<(), NetworkError> {
        let time = |what: &str, value_s: f64| match value_s.is_finite() && value_s >= 0.0 {
            true => Ok(()),
            false => Err(NetworkError::Time { what: what.to_owned(), value_s }),
        };
        time("the think time", self.think_s)?;
        for station in &self.stations {
            time(&format!("the demand of {}", station.name), station.demand_s)?;
            let fits = match &station.rate {
                Rate::Single => true,
                Rate::Servers(servers) => *servers > 0,
                Rate::Dependent(rates) => {
                    rates.first() == Some(&1.0) && rates.iter().all(|rate| rate.is_finite() && *rate > 0.0)
                }
            };
            if !fits {
                return Err(NetworkError::Rate { name: station.name.clone() });
            }
        }
        let (count, total_s) = (self.stations.len(), self.total_s());
        if !(total_s > 0.0 && total_s.is_finite()) || count > STATIONS_MAX {
            return Err(NetworkError::Empty { count, total_s });
        }
        match customers <= CUSTOMERS_MAX {
            true => Ok(()),
            false => Err(NetworkError::Customers(customers)),
        }
    }

    /// A round of one customer alone.
    pub fn total_s(&self) -> f64 {
        self.think_s + self.stations.iter().map(|station| station.demand_s).sum::<f64>()
    }

    /// With so many customers: no station works faster than it ever can, and nobody's round is shorter than
    /// its own service at the highest rates.
    pub fn bounds(&self, customers: usize) -> Bounds {
        let fastest = |station: &Station| (1..=customers).map(|n| station.rate(n)).fold(1.0, f64::max);
        let least_s = |station: &Station| station.demand_s / fastest(station);
        let slowest_s = self.stations.iter().map(least_s).fold(0.0, f64::max);
        let alone_s = self.think_s + self.stations.iter().map(least_s).sum::<f64>();
        Bounds {
            most_per_s: (customers as f64 / alone_s).min(1.0 / slowest_s),
            knee: self.total_s() / slowest_s,
        }
    }
}
