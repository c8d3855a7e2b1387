/// The resource that gave bytes, after redirects: what their validator is about. That of another resource may be the same by chance, as those
/// made of a date and a length are (RFC 9110 section 8.8.1: a strong validator is unique among all versions of one resource).
///
/// It holds no path and no query, which may be signed, but their digest.
package struct ResumeSource: Hashable, Sendable {
  package let origin: Origin
  /// SHA-256 of the path where an entity tag tells the versions, as the same file is often signed anew in its query; of path and query where
  /// a date does, as files of one date are many.
  package let digest: [UInt8]

  package init(_ url: ParsedURL, for validator: ResumeValidator?) {
    let isTagged = validator?.isEntityTag ?? false
    self.init(origin: url.origin, digest: ResumeHash.digest(Array((isTagged ? url.path : url.target).utf8).span))
  }

  init(origin: Origin, digest: [UInt8]) {
    self.origin = origin
    self.digest = digest
  }
}
