//! The order of commands and events over processes, each with a count of its own.

use scsi::Arrival;

use crate::remote::order::Order;

/// A process: its count of events, and what it knows of others.
struct Process {
    events: u64,
    orders: Vec<Order>,
}

impl Process {
    fn new(events: u64, others: usize) -> Process {
        Process { events, orders: (0..others).map(|_| Order::new()).collect() }
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn arrival(&self) -> Arrival {
        Arrival::default().renumbered(self.events)
    }

    /// A frame for the other side of one of its exchanges.
    fn tell(&mut self, which: usize) -> u64 {
        self.orders[which].tell(self.events)
    }

    fn hear(&mut self, which: usize, told: u64) {
        let events = &mut self.events;
        self.orders[which].hear(told, || {
            *events += 1;
            *events
        });
    }
}

/// Two processes that have heard each other's first frame.
fn two(a: u64, b: u64) -> (Process, Process) {
    let (mut a, mut b) = (Process::new(a, 1), Process::new(b, 1));
    greet((&mut a, 0), (&mut b, 0));
    (a, b)
}

fn greet((a, to_b): (&mut Process, usize), (b, to_a): (&mut Process, usize)) {
    let (of_a, of_b) = (a.tell(to_b), b.tell(to_a));
    a.hear(to_b, of_b);
    b.hear(to_a, of_a);
}

/// Passes on news until there is none; gives how many frames that took.
fn settle((a, to_b): (&mut Process, usize), (b, to_a): (&mut Process, usize)) -> usize {
    let mut frames = 0;
    loop {
        let (of_a, of_b) = (a.orders[to_b].has_news(a.events), b.orders[to_a].has_news(b.events));
        if of_a {
            let told = a.tell(to_b);
            b.hear(to_a, told);
        }
        if of_b {
            let told = b.tell(to_a);
            a.hear(to_b, told);
        }
        match usize::from(of_a) + usize::from(of_b) {
            0 => return frames,
            more => frames += more,
        }
        assert!(frames < 100, "an echo");
    }
}

#[test]
fn a_command_from_before_an_event_at_the_other_side_is_never_taken_for_a_later_one() {
    // Whichever count is ahead.
    for (a, b) in [(0, 0), (1000, 3), (3, 1000)] {
        let (mut a, mut b) = two(a, b);
        let before = a.arrival();
        let event = b.event();
        let unheard = a.arrival();
        assert_eq!(settle((&mut a, 0), (&mut b, 0)), 1, "and nothing comes back");
        let after = a.arrival();
        let at_b = |arrival| a.orders[0].arrival(arrival).expect("known").is_before(event);
        assert!(at_b(before), "it is older");
        assert!(at_b(unheard), "nobody knows: it counts as older");
        assert!(!at_b(after), "it is younger");
    }
}

#[test]
fn a_command_from_before_the_connection_is_not_sent() {
    let mut a = Process::new(5, 1);
    let before = a.arrival();
    a.hear(0, 7);
    assert_eq!(a.orders[0].arrival(before), None);
    assert_eq!(a.orders[0].arrival(a.arrival()).map(Arrival::after), Some(7));
}

#[test]
fn an_event_goes_along_with_a_logical_unit_and_comes_back_as_what_it_was() {
    let (mut a, mut b) = two(10, 2000);
    let before = a.arrival();
    let event = b.event();
    settle((&mut a, 0), (&mut b, 0));
    let after = a.arrival();
    // The logical unit moves from B to A.
    let sent = b.orders[0].sent(event);
    let told = b.tell(0);
    a.hear(0, told);
    let here = a.orders[0].received(sent);
    assert!(!before.is_before(here) && !after.is_before(here));
    // And back.
    let back = a.orders[0].sent(here);
    let told = a.tell(0);
    b.hear(0, told);
    assert!(!b.arrival().is_before(b.orders[0].received(back)));
}

#[test]
fn an_event_reaches_a_third_process_through_the_owner() {
    let (mut a, mut owner, mut c) = (Process::new(7, 1), Process::new(300, 2), Process::new(50, 1));
    greet((&mut a, 0), (&mut owner, 0));
    greet((&mut c, 0), (&mut owner, 1));
    settle((&mut a, 0), (&mut owner, 0));
    settle((&mut c, 0), (&mut owner, 1));
    settle((&mut a, 0), (&mut owner, 0));
    let before = a.arrival();
    let event = c.event();
    assert_eq!(settle((&mut c, 0), (&mut owner, 1)), 1);
    assert_eq!(settle((&mut a, 0), (&mut owner, 0)), 1);
    assert_eq!(settle((&mut c, 0), (&mut owner, 1)), 0, "what the owner heard of A is no news of A");
    let after = a.arrival();
    let at_c = |arrival| {
        let at_owner = a.orders[0].arrival(arrival).expect("known");
        owner.orders[1].arrival(at_owner).expect("known").is_before(event)
    };
    assert!(at_c(before) && !at_c(after));
}

#[test]
fn a_thousand_frames_of_chance_keep_the_order() {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut a, mut b) = two(random.u64(..100), random.u64(..100));
    // Commands at A and events at B, in the order in which they happened.
    let (mut commands, mut events, mut now) = (Vec::new(), Vec::new(), 0);
    let mut under_way = std::collections::VecDeque::new();
    for _ in 0..1000 {
        now += 1;
        match random.u8(..5) {
            0 => commands.push((now, a.arrival())),
            1 => events.push((now, b.event())),
            2 => _ = a.event(),
            3 => under_way.push_back(b.tell(0)),
            _ => under_way.pop_front().into_iter().for_each(|told| a.hear(0, told)),
        }
    }
    let mut younger = 0;
    for (arrived, command) in &commands {
        let there = a.orders[0].arrival(*command).expect("known");
        for (happened, event) in &events {
            assert!(
                there.is_before(*event) || happened < arrived,
                "command at {arrived}, event at {happened}"
            );
            younger += usize::from(!there.is_before(*event));
        }
    }
    assert!(younger > 1000, "and most of what is known counts: {younger}");
}
