//! Why nothing is predicted.

/// Why a ramp allows no prediction, or none beyond some number of servers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Refusal {
    /// Too little was measured.
    #[error("too few measurements: {servers} numbers of servers, a prediction requires at least {least}")]
    TooFew {
        /// Different numbers of servers.
        servers: usize,
        /// How many it takes.
        least: usize,
    },
    /// A number that is none.
    #[error("the measurement with {servers} servers has an invalid value: {what}")]
    NoValue {
        /// With how many servers.
        servers: u32,
        /// What is wrong.
        what: String,
    },
    /// One group is not like the others.
    #[error(
        "with {servers} servers a group gives {percent:.0} % of what another one does that as many share, and a forecast takes groups \
         to be alike: a drive of it may be lost or slow; repair it and measure again"
    )]
    Uneven {
        /// With how many servers.
        servers: u32,
        /// What it gives, of what the other one does.
        percent: f64,
    },
    /// A resource's utilisation does not follow the throughput.
    #[error(
        "{resource}: its utilisation is not proportional to the throughput: {least_us:.1} to {most_us:.1} µs \
         per I/O, {off_percent:.0} % off the best line, at a utilisation of {utilisation_percent:.0} %"
    )]
    NotALine {
        resource: String,
        /// The smallest demand measured.
        least_us: f64,
        /// The largest.
        most_us: f64,
        /// Root mean square of the distance to the best line.
        off_percent: f64,
        /// How busy it was at most.
        utilisation_percent: f64,
    },
    /// Something that was not measured holds the servers up.
    #[error(
        "something that was not measured ends it: from {from} to {to} servers each gets {fall_percent:.0} % less, {unexplained_percent:.0} % \
         more than {resource}, the busiest that was measured at {utilisation_percent:.0} %, explains"
    )]
    Unmeasured {
        /// First number of servers.
        from: u32,
        /// Last.
        to: u32,
        /// How much less a server gets.
        fall_percent: f64,
        /// How far the best model with all measured resources is above.
        unexplained_percent: f64,
        /// The busiest.
        resource: String,
        /// How busy.
        utilisation_percent: f64,
    },
    /// The network is not what was measured.
    #[error(
        "the network of the measured resources is {off_percent:.0} % off the points that it was fitted on: something in it works in another way, such as \
         a demand that changes with the servers on a group"
    )]
    Misfit {
        /// Root mean square.
        off_percent: f64,
    },
    /// More servers would share a group than ever did.
    #[error(
        "with {servers} servers {each} share a group; the measurements have {measured} at most, so the cost \
         of another one on its drives is unknown: put as many of the existing servers on one group, and \
         measure that"
    )]
    Deeper {
        /// From how many servers on.
        servers: u32,
        /// How many share a group.
        each: u32,
        /// The most that were measured.
        measured: u32,
    },
    /// Between two measured numbers of servers the cache stops holding everything.
    #[error(
        "between {low} and {high} servers the cache no longer holds everything, and no measured point says \
         where: measure {servers}"
    )]
    Crossing {
        /// With so many.
        servers: u32,
        /// The next number below that was measured.
        low: u32,
        /// The next above.
        high: u32,
    },
    /// Writes are about to wait for the drives.
    #[error(
        "with {each} servers on a group the cache came to {percent:.1} % of the writes that it may hold: with {servers} they wait for the \
         drives, and how long, no measured point says"
    )]
    NearlyFull {
        /// From how many servers on.
        servers: u32,
        /// How many share a group.
        each: u32,
        /// Of what the cache may hold.
        percent: f64,
    },
    /// The network has no solution.
    #[error("the model has no solution: {0}")]
    Network(#[from] crate::mva::NetworkError),
}
