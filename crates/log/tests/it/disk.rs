//! A disk under SQLite that can be full, can fail to sync, and knows what a loss of power would
//! leave: for each file the bytes that were synced, and the changes since.
#![expect(unsafe_code, reason = "SQLite's file layer is a C interface")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::ffi::{
    self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find,
    sqlite3_vfs_register,
};

/// What a file would hold after a loss of power.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    synced: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

/// Which changes since the last sync reach the disk when the power goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Survives {
    Nothing,
    Everything,
    EverySecond,
    LastOnly,
    /// Everything, but the last one only with its first half.
    TornLast,
}

impl Survives {
    pub(crate) const ALL: [Self; 5] =
        [Self::Nothing, Self::Everything, Self::EverySecond, Self::LastOnly, Self::TornLast];
}

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// What a disk writes as a whole, if at all.
const SECTOR_BYTES: usize = 512;

impl Content {
    /// Any of the changes since the last sync reach the disk, some of them only in part.
    pub(crate) fn scattered(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let kept_of_eight = random.below(9);
        for change in &self.changes {
            if random.below(8) >= kept_of_eight {
                continue;
            }
            match change {
                Change::Write(at, data) if random.below(4) == 0 => {
                    for (n, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                        if random.below(2) == 0 {
                            let part = Change::Write(at + n * SECTOR_BYTES, sector.to_vec());
                            part.apply(&mut bytes, false);
                        }
                    }
                }
                whole => whole.apply(&mut bytes, false),
            }
        }
        bytes
    }

    pub(crate) fn after_power_loss(&self, survives: Survives) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let last = self.changes.len().saturating_sub(1);
        for (n, change) in self.changes.iter().enumerate() {
            let keeps = match survives {
                Survives::Nothing => false,
                Survives::Everything | Survives::TornLast => true,
                Survives::EverySecond => n % 2 == 0,
                Survives::LastOnly => n == last,
            };
            if keeps {
                change.apply(&mut bytes, matches!(survives, Survives::TornLast) && n == last);
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, is_torn: bool) {
        match self {
            Self::Truncate(length) => bytes.truncate(*length),
            Self::Write(at, data) => {
                let data = if is_torn { &data[..data.len() / 2] } else { data };
                let end = at + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(data);
            }
        }
    }
}

pub(crate) type Files = BTreeMap<PathBuf, Content>;
type Observer = Box<dyn FnMut(&Files) + Send>;

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The device answers an error; nothing of the call was done.
    Io,
    /// There is no room; nothing of the call was done.
    Full,
    /// Half of it was done before the device failed.
    Short,
}

#[derive(Default)]
struct State {
    /// Calls that read, write, cut or sync, so far.
    calls: AtomicU64,
    /// Which of them fails, once, and how.
    fault: Mutex<Option<(u64, Fault)>>,
    syncs: AtomicU64,
    /// Which sync fails, once, and says that it did not.
    unheard: Mutex<Option<u64>>,
    fails_to_sync: AtomicBool,
    lies: AtomicBool,
    is_full: AtomicBool,
    files: Mutex<Files>,
    /// Hears of each sync before it happens.
    observer: Mutex<Option<Observer>>,
}

/// A registered file layer. It stays registered until the process ends.
#[derive(Clone)]
pub(crate) struct Disk {
    name: String,
    state: Arc<State>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let name = format!("disk-{}", SERIAL.fetch_add(1, Ordering::SeqCst));
        let state = Arc::new(State::default());
        register(&name, Arc::clone(&state));
        Self { name, state }
    }

    pub(crate) fn options(&self) -> glasshouse_log::Options {
        glasshouse_log::Options { vfs: Some(self.name.clone()), ..Default::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state.syncs.load(Ordering::SeqCst)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.state.is_full.store(is_full, Ordering::SeqCst);
    }

    /// As Linux does it: the failed sync is reported once, and what it should have written is from
    /// then on only in memory.
    pub(crate) fn set_failing_to_sync(&self, fails: bool) {
        self.state.fails_to_sync.store(fails, Ordering::SeqCst);
    }

    /// Reports syncs that it does not make, as a log would see it that forgot them.
    pub(crate) fn set_lying(&self, lies: bool) {
        self.state.lies.store(lies, Ordering::SeqCst);
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::SeqCst)
    }

    /// Lets one call fail, counted from the first.
    pub(crate) fn fail_call(&self, call: u64, fault: Fault) {
        *self.state.fault.lock().unwrap() = Some((call, fault));
    }

    /// Lets one sync fail, counted from the first, and nobody hears of it: as by a log that does not look.
    pub(crate) fn fail_sync_unheard(&self, sync: u64) {
        *self.state.unheard.lock().unwrap() = Some(sync);
    }

    /// Whether the call that was to fail did.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.fault.lock().unwrap().is_none()
    }

    pub(crate) fn observe_syncs(&self, observer: impl FnMut(&Files) + Send + 'static) {
        *self.state.observer.lock().unwrap() = Some(Box::new(observer));
    }

    pub(crate) fn files(&self) -> Files {
        self.state.files.lock().unwrap().clone()
    }
}

struct Layer {
    real: *mut sqlite3_vfs,
    state: Arc<State>,
}

/// SQLite's view of an open file: our part, then the real layer's.
#[repr(C)]
struct File {
    base: sqlite3_file,
    layer: *const Layer,
    path: *mut PathBuf,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Version 2 has shared memory but no memory-mapped reading, so every change is seen here.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

fn register(name: &str, state: Arc<State>) {
    // SAFETY: the default layer exists for the whole process. The copy, its name and its data are
    // leaked, so what SQLite keeps of them stays valid, and the data is only shared.
    unsafe {
        let real = sqlite3_vfs_find(ptr::null());
        assert!(!real.is_null());
        let mut layer = *real;
        layer.szOsFile += c_int::try_from(size_of::<File>()).unwrap();
        layer.zName = CString::new(name).unwrap().into_raw();
        layer.pAppData = Box::into_raw(Box::new(Layer { real, state })).cast();
        layer.pNext = ptr::null_mut();
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        let registered = sqlite3_vfs_register(Box::into_raw(Box::new(layer)), 0);
        assert_eq!(registered, ffi::SQLITE_OK);
    }
}

unsafe fn layer_of<'a>(vfs: *mut sqlite3_vfs) -> &'a Layer {
    // SAFETY: `register` put a leaked `Layer` there.
    unsafe { &*(*vfs).pAppData.cast::<Layer>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives `szOsFile` bytes at `file`, of which the first are ours and the rest the
    // real layer's, and a name that is null or ends with a zero.
    unsafe {
        let layer = layer_of(vfs);
        let open = (*layer.real).xOpen.unwrap();
        let code = open(layer.real, name, real(file), flags, out_flags);
        (*file).pMethods = ptr::null();
        if code != ffi::SQLITE_OK {
            return code;
        }
        assert!(!name.is_null(), "temporary files are in memory");
        let path = PathBuf::from(CStr::from_ptr(name).to_str().unwrap());
        let mut files = layer.state.files.lock().unwrap();
        files.entry(path.clone()).or_insert_with(|| Content {
            synced: std::fs::read(&path).unwrap_or_default(),
            changes: Vec::new(),
        });
        let ours = file.cast::<File>();
        (*ours).layer = layer;
        (*ours).path = Box::into_raw(Box::new(path));
        (*file).pMethods = &raw const METHODS;
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero.
    unsafe {
        let layer = layer_of(vfs);
        let path = Path::new(CStr::from_ptr(name).to_str().unwrap());
        layer.state.files.lock().unwrap().remove(path);
        (*layer.real).xDelete.unwrap()(layer.real, name, sync)
    }
}

/// The real layer's part of a file.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the bytes after ours belong to the same allocation; both parts have the alignment of
    // a pointer.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// Calls a method of the real layer on its part of a file.
macro_rules! forward {
    ($method:ident($file:expr $(, $argument:expr)*)) => {{
        // SAFETY: the real layer opened its part and has every method of version 2.
        unsafe {
            let real = real($file);
            (*(*real).pMethods).$method.unwrap()(real $(, $argument)*)
        }
    }};
}

/// Changes what is known of an open file.
unsafe fn with_content(file: *mut sqlite3_file, change: impl FnOnce(&mut Content)) {
    // SAFETY: `open` set both pointers; they are valid until `close`.
    unsafe {
        let ours = file.cast::<File>();
        let layer: &Layer = &*(*ours).layer;
        let mut files = layer.state.files.lock().unwrap();
        change(files.entry((*(*ours).path).clone()).or_default());
    }
}

unsafe fn state<'a>(file: *mut sqlite3_file) -> &'a State {
    // SAFETY: as in `with_content`; the layer is never freed.
    unsafe {
        let layer: &Layer = &*(*file.cast::<File>()).layer;
        &layer.state
    }
}

impl State {
    /// Counts a call; the fault that meets it, if one does.
    fn next_call(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let mut fault = self.fault.lock().unwrap();
        let met = fault.filter(|(at, _)| *at == call).map(|(_, fault)| fault);
        if met.is_some() {
            *fault = None;
        }
        met
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let code = forward!(xClose(file));
    // SAFETY: SQLite closes an opened file once, and nothing uses the path afterwards.
    unsafe { drop(Box::from_raw((*file.cast::<File>()).path)) };
    code
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open.
    match unsafe { state(file) }.next_call() {
        None => {}
        Some(Fault::Io) => return ffi::SQLITE_IOERR_WRITE,
        Some(Fault::Full) => return ffi::SQLITE_FULL,
        Some(Fault::Short) => {
            let code = forward!(xWrite(file, bytes, amount / 2, at));
            return if code == ffi::SQLITE_OK { ffi::SQLITE_IOERR_WRITE } else { code };
        }
    }
    // SAFETY: the file is open, and SQLite gives `amount` bytes.
    unsafe {
        if state(file).is_full.load(Ordering::SeqCst) {
            return ffi::SQLITE_FULL;
        }
        let length = usize::try_from(amount).unwrap();
        let data = std::slice::from_raw_parts(bytes.cast::<u8>(), length).to_vec();
        let change = Change::Write(usize::try_from(at).unwrap(), data);
        with_content(file, |content| content.changes.push(change));
    }
    forward!(xWrite(file, bytes, amount, at))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    let change = Change::Truncate(usize::try_from(length).unwrap());
    // SAFETY: the file is open.
    if unsafe { state(file) }.next_call().is_some() {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    // SAFETY: the file is open.
    unsafe { with_content(file, |content| content.changes.push(change)) };
    forward!(xTruncate(file, length))
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let state = unsafe { state(file) };
    if state.next_call().is_some() || state.fails_to_sync.load(Ordering::SeqCst) {
        // SAFETY: the file is open.
        unsafe { with_content(file, |content| content.changes.clear()) };
        return ffi::SQLITE_IOERR_FSYNC;
    }
    let files = state.files.lock().unwrap().clone();
    if let Some(observer) = state.observer.lock().unwrap().as_mut() {
        observer(&files);
    }
    let sync = state.syncs.fetch_add(1, Ordering::SeqCst);
    if *state.unheard.lock().unwrap() == Some(sync) {
        // SAFETY: the file is open.
        unsafe { with_content(file, |content| content.changes.clear()) };
        return ffi::SQLITE_OK;
    }
    if state.lies.load(Ordering::SeqCst) {
        return ffi::SQLITE_OK;
    }
    // The real disk need not sync: what counts as synced is kept here.
    // SAFETY: the file is open.
    unsafe {
        with_content(file, |content| {
            content.synced = content.after_power_loss(Survives::Everything);
            content.changes.clear();
        });
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    amount: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open.
    if unsafe { state(file) }.next_call().is_some() {
        return ffi::SQLITE_IOERR_READ;
    }
    forward!(xRead(file, into, amount, at))
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    forward!(xFileSize(file, size))
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    forward!(xLock(file, level))
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    forward!(xUnlock(file, level))
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    forward!(xCheckReservedLock(file, out))
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    forward!(xFileControl(file, op, arg))
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    forward!(xSectorSize(file))
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    forward!(xDeviceCharacteristics(file))
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    forward!(xShmMap(file, region, size, extend, out))
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    forward!(xShmLock(file, offset, count, flags))
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    forward!(xShmBarrier(file));
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    forward!(xShmUnmap(file, delete))
}
