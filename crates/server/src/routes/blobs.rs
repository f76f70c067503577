//! Stored bytes.

use glasshouse_model::Digest;
use hyper::StatusCode;

use crate::ask::Ask;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result};

/// A blob never changes, and only who has the token may have it.
const CACHE: &str = "private, max-age=31536000, immutable";

/// The bytes of a digest. They are somebody's data: nothing may run or show them by itself.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let digest: Digest = ask.part("digest", |text| {
        Error::new(glasshouse_log::codes::BLOB_NOT_FOUND, format!("there is no blob {text}"))
    })?;
    let bytes = service.kernel.log().blob(&digest)?;
    Ok(Reply::of_bytes(StatusCode::OK, "application/octet-stream", bytes)
        .header("content-disposition", "attachment")
        .header("content-security-policy", "sandbox")
        .header("cache-control", CACHE)
        .tagged(&digest.hex(), ask.if_none_match()))
}
