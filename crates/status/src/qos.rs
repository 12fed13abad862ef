//! Policies, schedulers, and what a volume is promised.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A policy: normalised IOPS.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// As declared.
    pub name: String,
    /// What a volume gets when it asks for it; 0: nothing is promised.
    pub minimum_iops: u64,
    /// What it gets at most.
    pub maximum_iops: Option<u64>,
    /// Bytes per second that it gets at most.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Its part of what is left.
    pub weight: u32,
    /// Units that it may be ahead after it was idle.
    pub burst_units: u64,
    /// `dedicated` or `aggregated`.
    pub sharing: String,
    /// The volumes and images that have it.
    pub volumes: Vec<String>,
}

/// The scheduler of a pool, or of the images of a controller.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolScheduler {
    /// The pool; none: that of the images.
    pub pool: Option<String>,
    /// The controller that has the pool.
    pub controller: usize,
    /// What counts as one.
    pub unit_bytes: u64,
    /// Requests that the pool works on at once at most, now.
    pub depth: u32,
    /// What determines the depth: `setting`; `throughput`, which does not rise with more; `minimums`, which
    /// need short response times; or `outstanding`, while hosts have too few requests outstanding for any to
    /// wait, and weights do nothing.
    #[serde(default)]
    pub depth_limit: String,
    /// Throughput that the depth found costs against the deepest, in thousandths.
    #[serde(default)]
    pub depth_cost_permille: u32,
    /// Those that it works on.
    pub in_flight: u32,
    /// Those that wait.
    pub waiting: u32,
    /// Normalised IOPS that the pool was seen to do; 0: nothing yet.
    pub capacity_iops: u64,
    /// Whether somebody waited all along then, so that it was all that the pool could do.
    pub capacity_is_full: bool,
    /// What is promised in sum.
    pub minimums_iops: u64,
    /// What of it could be given in the last 5 s: less than 1000 where more is promised than there is.
    pub scale_permille: u32,
    /// Bytes of drive I/O of work in the background that had its turns here.
    pub background_bytes: u64,
    /// Its parts of aggregated policies that have volumes in other schedulers, too.
    #[serde(default)]
    pub parts: Vec<PolicyPart>,
}

/// What one scheduler has of an aggregated policy now. The parts of all schedulers add up to the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyPart {
    /// The name of the policy.
    pub policy: String,
    /// What the scheduler gives of what the policy gets on demand.
    pub minimum_iops: u64,
    /// What of its limit the scheduler uses.
    pub maximum_iops: Option<u64>,
    /// The same in bytes.
    pub bandwidth_bytes_per_s: Option<u64>,
}

/// How the service stands that a volume or an image is promised.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VolumeQos {
    /// Its name; none without a limit or minimum.
    pub policy: Option<String>,
    /// `ok`, `below_minimum` or `unknown_policy`.
    pub state: String,
    /// Normalised IOPS of the last 5 s, while it is below its minimum.
    pub served_iops: Option<u64>,
    /// What it would get more with: `capacity`, which the minimums exceed, while it is below its minimum;
    /// `outstanding` requests, of which hosts have too few for the time that one takes, also while it is not.
    #[serde(default)]
    pub lacks: Option<String>,
    /// Bytes that its requests were charged.
    pub charged_bytes: u64,
    /// Requests served because the minimum was due.
    pub minimum_requests: u64,
    /// Requests served by weight.
    pub weight_requests: u64,
    /// Requests that could not begin when they came.
    pub waited_requests: u64,
    /// How long they waited, in microseconds.
    pub waited_us: u64,
}
