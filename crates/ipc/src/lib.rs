//! ipc.
