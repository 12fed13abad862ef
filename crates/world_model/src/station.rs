//! A server with a queue: the cores of a controller, a direction of a port, the I/O path of a host. Pure: the
//! caller passes the time, and waits for the returned end.

/// Servers with one queue between them, first come, first served.
#[derive(Clone, Debug)]
pub struct Station {
    /// When each server will be idle.
    free_at_ns: Vec<u64>,
    /// All work so far, also what waits.
    given_ns: u64,
    served: u64,
}

impl Station {
    /// A station of so many servers, at least one, all idle.
    pub fn new(servers: usize) -> Station {
        Station { free_at_ns: vec![0; servers.max(1)], given_ns: 0, served: 0 }
    }

    /// Adds work that arrives now, behind all earlier work; returns when it will be done. Time must not
    /// decrease between calls.
    pub fn serve(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        let first = self.free_at_ns.iter_mut().min().expect("there is a server");
        *first = (*first).max(now_ns).saturating_add(work_ns);
        self.given_ns = self.given_ns.saturating_add(work_ns);
        self.served += 1;
        *first
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.free_at_ns.len()
    }

    /// When the last of its work so far will be done.
    pub fn busy_until_ns(&self) -> u64 {
        self.free_at_ns.iter().copied().max().expect("there is a server")
    }

    /// The total busy time until now.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        // A server that has work works without a pause until it has none.
        let ahead: u64 = self.free_at_ns.iter().map(|at| at.saturating_sub(now_ns)).sum();
        self.given_ns.saturating_sub(ahead)
    }

    /// The number of jobs.
    pub fn served(&self) -> u64 {
        self.served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_waits_for_what_came_before() {
        let mut one = Station::new(1);
        assert_eq!((one.serve(0, 10), one.serve(5, 10), one.serve(100, 1)), (10, 20, 101));
        let mut two = Station::new(2);
        assert_eq!((two.serve(0, 10), two.serve(1, 10), two.serve(2, 10)), (10, 11, 20));
        assert_eq!((two.servers(), two.served(), two.busy_until_ns()), (2, 3, 20));
    }

    #[test]
    fn busy_time_is_what_has_passed_and_not_what_waits() {
        let mut station = Station::new(2);
        station.serve(0, 10);
        station.serve(0, 4);
        station.serve(2, 10);
        assert_eq!([0, 2, 4, 12, 14, 50].map(|now| station.busy_ns(now)), [0, 4, 8, 22, 24, 24]);
    }
}
