//! Task management (RFC 7143 11.5): affected tasks are stopped or waited for, and only then the function is
//! answered.

use std::rc::Rc;

use scsi::{HostView, TaskAttribute, TaskFunction, TaskOutcome};

use super::command::lun_of;
use super::seam::Target;
use super::session::Session;
use super::slot::{Management, Work};
use super::task::{Phase, Task};
use crate::pdu::{FINAL, Header, Pdu, TaskRequest, TaskResponse, function, outcome, reject};

/// What a request needs, or its immediate response.
fn judge(header: &TaskRequest) -> Result<Option<TaskFunction>, u8> {
    let lun = lun_of(&header.lun);
    let of_lun = |f: fn(scsi::Lun) -> TaskFunction| lun.map(|l| Some(f(l))).ok_or(outcome::NO_SUCH_LUN);
    match header.function & 0x7f {
        function::ABORT_TASK => Ok(None),
        function::ABORT_TASK_SET => of_lun(TaskFunction::AbortTaskSet),
        function::CLEAR_TASK_SET => of_lun(TaskFunction::ClearTaskSet),
        function::LUN_RESET => of_lun(TaskFunction::LunReset),
        function::TARGET_WARM_RESET | function::TARGET_COLD_RESET => Ok(Some(TaskFunction::TargetReset)),
        function::TASK_REASSIGN => Err(outcome::REASSIGN_NOT_SUPPORTED),
        _ => Err(outcome::NOT_SUPPORTED),
    }
}

impl<T: Target> Session<T> {
    /// Processes a task management request whose CmdSN is next.
    pub(crate) fn task_request(self: &Rc<Self>, pdu: &Pdu<'_>) {
        let header: &TaskRequest = pdu.header();
        if self.is_discovery() {
            return self.refuse(pdu, reject::PROTOCOL);
        }
        self.link.counts.borrow_mut().task_functions += 1;
        let function = match judge(header) {
            Ok(function) => function,
            Err(response) => return self.answer_at_once(pdu, response),
        };
        let victims = match function {
            Some(function) => {
                let is_meant = |task: &Task| {
                    !task.is_management
                        && match function {
                            TaskFunction::AbortTaskSet(l)
                            | TaskFunction::ClearTaskSet(l)
                            | TaskFunction::LunReset(l) => task.lun == Some(l),
                            TaskFunction::TargetReset => true,
                            TaskFunction::AbortTask(..) => false,
                        }
                };
                self.abort_where(is_meant);
                self.aborted(is_meant)
            }
            None => {
                let (itt, lun) = (header.referenced_task.get(), header.lun);
                let is_meant = |task: &Task| !task.is_management && task.itt == itt && task.lun_field == lun;
                let lives = |task: &Task| task.phase != Phase::Free && is_meant(task);
                if !self.state.borrow().tasks.list.iter().any(lives) {
                    return self.answer_at_once(pdu, outcome::NO_SUCH_TASK);
                }
                self.abort_where(is_meant);
                self.aborted(is_meant)
            }
        };
        let referenced = u64::from(header.referenced_task.get());
        let abort_task = || lun_of(&header.lun).map(|l| TaskFunction::AbortTask(l, referenced));
        let function = function.or_else(abort_task);
        let is_cold = header.function & 0x7f == function::TARGET_COLD_RESET;
        self.start_management(pdu, Management { function, victims, is_cold });
    }

    /// The slots of the affected tasks that still execute.
    fn aborted(&self, is_meant: impl Fn(&Task) -> bool) -> Vec<u16> {
        let state = self.state.borrow();
        let tasks = state.tasks.list.iter().enumerate();
        tasks.filter(|(_, t)| t.phase == Phase::Executing && is_meant(t)).map(|(i, _)| i as u16).collect()
    }

    fn start_management(self: &Rc<Self>, pdu: &Pdu<'_>, management: Management) {
        let header: &TaskRequest = pdu.header();
        let is_immediate = pdu.is_immediate();
        let mut state = self.state.borrow_mut();
        if is_immediate && state.tasks.immediates >= self.limits.immediate {
            drop(state);
            return self.refuse(pdu, reject::TOO_MANY_IMMEDIATE);
        }
        let slot =
            state.tasks.take(header.itt.get()).expect("a slot for every request that the window lets in");
        let task = &mut state.tasks.list[usize::from(slot)];
        (task.cmd_sn, task.is_immediate, task.is_management) = (header.cmd_sn.get(), is_immediate, true);
        (task.reads, task.writes, task.is_aborted, task.held) = (false, false, false, 0);
        (task.attribute, task.lun) = (TaskAttribute::Simple, None);
        state.tasks.immediates += u16::from(is_immediate);
        state.tasks.set_phase(slot, Phase::Executing);
        drop(state);
        self.run(slot, Work::Manage(management));
    }

    /// Performs a function; returns its response.
    pub(crate) async fn manage(&self, view: &T::View, management: Management) -> u8 {
        let response = match management.function {
            None => outcome::COMPLETE,
            Some(function) => match view.manage(function).await {
                TaskOutcome::Complete => outcome::COMPLETE,
                TaskOutcome::NoSuchLun => outcome::NO_SUCH_LUN,
            },
        };
        let all_ended = || {
            let state = self.state.borrow();
            let lives = |slot: &u16| {
                let task = &state.tasks.list[usize::from(*slot)];
                task.phase == Phase::Executing && task.is_aborted && !task.is_management
            };
            (!management.victims.iter().any(lives)).then_some(())
        };
        self.task_ended.wait_for(all_ended).await;
        if let (true, Some(name)) = (management.is_cold, &self.target_name) {
            self.portal.drop_sessions_of(&self.initiator, name, self.world.now());
        }
        response
    }

    pub(crate) fn finish_management(&self, slot: u16, response: u8) {
        let mut state = self.state.borrow_mut();
        let task = &mut state.tasks.list[usize::from(slot)];
        let (itt, is_immediate, is_aborted) =
            (task.itt, task.is_immediate, std::mem::take(&mut task.is_aborted));
        if !is_immediate {
            state.window.max_cmd_sn = state.window.max_cmd_sn.wrapping_add(1);
        }
        state.tasks.release(slot);
        drop(state);
        if !is_aborted && !self.is_over() {
            self.push_task_response(itt, response);
        }
        self.state.borrow_mut().end_when_answered();
        self.answers_wait();
        self.task_ended.wake_all();
    }

    fn answer_at_once(&self, pdu: &Pdu<'_>, response: u8) {
        self.state.borrow_mut().pass(pdu);
        self.push_task_response(pdu.itt(), response);
        self.answers_wait();
    }

    fn push_task_response(&self, itt: u32, response: u8) {
        let mut state = self.state.borrow_mut();
        let header = TaskResponse {
            opcode: TaskResponse::OPCODE,
            flags: FINAL,
            response,
            itt: itt.into(),
            stat_sn: state.out.next_stat_sn().into(),
            exp_cmd_sn: state.window.exp_cmd_sn.into(),
            max_cmd_sn: state.window.max_cmd_sn.into(),
            ..TaskResponse::default()
        };
        state.out.push(header.bytes());
    }
}
