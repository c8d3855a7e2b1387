/// Reads one head after another: the status line, then field lines, into storage that is used again once its heads are gone.
/// It cannot be copied: what would be copied is large, and the copy would keep the storage from being written.
///
/// Invariant: `base + buffer.filled` bytes of the response have been taken; offsets in errors are `base` + position.
struct HeadParser: ~Copyable {
  private var buffer = HeadBuffer()
  private var fields: FieldScanner
  private var line = StatusLineScanner()
  private var lineEnded = false
  /// Bytes of this response before this head.
  private(set) var base = 0
  private var fieldsBefore = 0

  private let limits: WireLimits
  private let leniency: WireLeniency

  init(limits: WireLimits, leniency: WireLeniency) {
    self.limits = limits
    self.leniency = leniency
    fields = FieldScanner(
      lineLimit: limits.fieldLine, fieldLimit: limits.fields, section: .head, leniency: leniency)
  }

  /// Why no response may follow on the connection, whatever the final head says: every head of a response may set it, and whoever begins with
  /// the next response clears it.
  var spoiled: CloseReason? {
    get { fields.spoiled }
    set { fields.spoiled = newValue }
  }

  /// Whether not one byte of this head has come.
  var isUntouched: Bool { buffer.filled == 0 }

  /// Bytes of this response taken so far, all heads together.
  var consumed: Int { base + buffer.filled }

  /// Makes ready for the next head of the same response if `continuing`, else for the next response.
  mutating func begin(continuing: Bool) {
    base = continuing ? consumed : 0
    fieldsBefore = continuing ? fieldsBefore + fields.count : 0
    buffer.reset()
    line = StatusLineScanner()
    lineEnded = false
    fields.phase = .lineStart
    fields.count = 0
    fields.foldStart = 0
    fields.fieldLimit = limits.fields - fieldsBefore
    fields.statedFieldLimit = limits.fields
  }

  /// Lets go of the storage, and of the head that is in it.
  mutating func releaseStorage() {
    buffer.release()
  }

  /// Bytes of storage.
  var keptBytes: Int { buffer.storage.count }

  /// Takes bytes from `offset` on; true once a head is complete. Otherwise everything was taken.
  @inline(__always)
  mutating func next(_ input: Span<UInt8>, _ offset: inout Int) throws(WireError) -> Bool {
    while true {
      offset &+= buffer.fill(input, offset, limit: limits.head &- base &- buffer.filled)
      if try scan() {
        offset &-= buffer.filled &- fields.position
        buffer.filled = fields.position
        return true
      }
      if offset == input.count { return false }
      if consumed >= limits.head { throw WireError(.headTooLarge(limit: limits.head), at: limits.head) }
    }
  }

  /// The status of the complete head.
  var status: Int { line.status }

  /// The complete head.
  var head: ResponseHead { ResponseHead(fields: buffer.section) }

  /// For how many seconds the peer waits for the next request, as the complete head says; nil if it does not, or was let go of.
  var keepAliveSeconds: Int? {
    buffer.storage.isEmpty ? nil : FramingDecision.keepAliveSeconds(IndexedBytes(buffer.storage, buffer.indexStart))
  }

  /// What the complete head says about framing.
  mutating func decide(_ request: RequestContext) throws(WireError) -> FramingDecision {
    do throws(WireError) {
      return try FramingDecision.decide(
        line.status, HTTPVersion(minor: line.minor), IndexedBytes(buffer.storage, buffer.indexStart), request, leniency)
    } catch {
      throw WireError(error.reason, at: base + error.offset)
    }
  }

  /// Scans what was filled in; true once the head has ended.
  @inline(__always)
  private mutating func scan() throws(WireError) -> Bool {
    do throws(WireError) {
      if !lineEnded {
        guard
          try Self.scan(&line, buffer.storage, buffer.filled, limits.statusLine, leniency, &fields.spoiled)
        else { return false }
        lineEnded = true
        fields.position = line.position
      }
      let label = SectionLabel(
        status: line.status, minor: line.minor, reasonStart: line.reasonStart, reasonEnd: line.reasonEnd)
      return try buffer.scan(&fields, label)
    } catch {
      throw WireError(error.reason, at: base + error.offset)
    }
  }

  @inline(__always)
  private static func scan(
    _ line: inout StatusLineScanner, _ storage: borrowing [UInt8], _ filled: Int, _ limit: Int,
    _ leniency: WireLeniency, _ spoiled: inout CloseReason?
  ) throws(WireError) -> Bool {
    try line.scan(storage.span, filled: filled, limit: limit, leniency, &spoiled)
  }
}
