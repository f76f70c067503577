//! The egress proxy: what gets out, what does not, and what would without it.
//!
//! Nothing here touches the Internet. Names resolve through a table, and the dialler maps the
//! public-looking addresses of that table to sinks on loopback that note every byte they get.

mod attacks;
mod inside;
mod limits;
mod secrets;
mod support;
