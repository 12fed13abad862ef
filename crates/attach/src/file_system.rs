//! The file system for the kernel: a root directory with one file.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime};

use block::Buf;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request as Asked, TimeOrNow, WriteFlags,
};

use crate::serve::{Request, Sender};

/// The name of the file.
pub const FILE_NAME: &str = "disk";
/// Length limit of one read or write request of the kernel.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Limit of background requests (read-ahead, direct I/O in flight) that the kernel sends at once.
const BACKGROUND_MAX: u16 = 64;
const FILE: INodeNo = INodeNo(2);
/// Lifetime of cached attributes: size and name never change while it is mounted.
const KNOWN_FOR: Duration = Duration::from_hours(24);
/// The modes of fallocate(2) that zero a range without changing the size: punch a hole, zero a range.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

pub(crate) struct FileSystem {
    requests: Sender,
    len_bytes: u64,
    read_only: bool,
    owner: (u32, u32),
    since: SystemTime,
}

impl FileSystem {
    pub(crate) fn new(requests: Sender, len_bytes: u64, read_only: bool) -> FileSystem {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        FileSystem { requests, len_bytes, read_only, owner, since: SystemTime::now() }
    }

    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, size, write, links) = match node {
            INodeNo::ROOT => (FileType::Directory, 0, 0o100, 2),
            FILE => (FileType::RegularFile, self.len_bytes, if self.read_only { 0 } else { 0o200 }, 1),
            _ => return None,
        };
        let (uid, gid) = self.owner;
        Some(FileAttr {
            ino: node,
            size,
            blocks: size.div_ceil(512),
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm: 0o400 | write,
            nlink: links,
            uid,
            gid,
            rdev: 0,
            blksize: REQUEST_BYTES_MAX,
            flags: 0,
        })
    }

    fn answer(&self, node: INodeNo, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&KNOWN_FOR, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Passes a request on. If no worker is left, its reply is dropped and the kernel gets EIO.
    fn hand_on(&self, request: Request) {
        let _ = self.requests.send(request);
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel accepts what it supports: requests are then shorter and fewer, and the file cannot
        // be mapped.
        for wanted in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&KNOWN_FOR, &attributes, Generation(0))
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Asked, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer(node, reply);
    }

    /// The size of a disk never changes; other attributes are not stored.
    fn setattr(
        &self,
        _: &Asked,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let other_size = size.is_some_and(|size| node != FILE || size != self.len_bytes);
        if other_size || mode.is_some() || uid.is_some() || gid.is_some() {
            reply.error(Errno::EPERM);
        } else {
            self.answer(node, reply);
        }
    }

    fn open(&self, _: &Asked, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if node != FILE {
            reply.error(Errno::EISDIR);
        } else if self.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            reply.error(Errno::EROFS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
        }
    }

    fn readdir(&self, _: &Asked, node: INodeNo, _: FileHandle, from: u64, mut reply: ReplyDirectory) {
        if node != INodeNo::ROOT {
            reply.error(Errno::ENOENT);
            return;
        }
        let root = INodeNo::ROOT;
        let entries = [
            (root, FileType::Directory, "."),
            (root, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (number, (node, kind, name)) in (1..).zip(entries) {
            if number > from && reply.add(node, number, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn read(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // Reads end at the end of the file, as in any file.
        let len = u64::from(len.min(REQUEST_BYTES_MAX)).min(self.len_bytes.saturating_sub(at));
        match len {
            0 => reply.data(&[]),
            len => self.hand_on(Request::Read { at, len: len as u32, reply }),
        }
    }

    fn write(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let there = self.len_bytes.saturating_sub(at).min(data.len() as u64) as usize;
        match there {
            _ if self.read_only => reply.error(Errno::EROFS),
            0 if data.is_empty() => reply.written(0),
            // Devices return ENOSPC past their end; a write that begins before it is shortened.
            0 => reply.error(Errno::ENOSPC),
            _ if data.len() > REQUEST_BYTES_MAX as usize => reply.error(Errno::EINVAL),
            there => self.hand_on(Request::Write { at, data: Buf::copy_of(&data[..there]).freeze(), reply }),
        }
    }

    fn fallocate(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let there = self.len_bytes.saturating_sub(at).min(len);
        if self.read_only {
            reply.error(Errno::EROFS);
        } else if !matches!(mode & !KEEP_SIZE, PUNCH_HOLE | ZERO_RANGE) {
            // Space cannot be reserved, and the size cannot change.
            reply.error(Errno::EOPNOTSUPP);
        } else if there == 0 {
            reply.ok();
        } else {
            self.hand_on(Request::Zero { at, len: there, reply });
        }
    }

    fn flush(&self, _: &Asked, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.hand_on(Request::Flush { reply });
    }

    fn fsync(&self, _: &Asked, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.hand_on(Request::Flush { reply });
    }
}
