/// The storage that a section is read into and then shared with: flat bytes with padding behind them, and the index.
///
/// Invariant: once anything was filled in, `filled + ByteScan.padding <= bytes.count` and `bytes[filled]` is the sentinel, NUL.
struct HeadBuffer {
  var bytes: [UInt8] = []
  var entries: [FieldEntry] = []
  var token = StorageToken()
  /// Bytes of input in `bytes`.
  var filled = 0

  /// How much is copied in at a time: the end of the section is not known before it is scanned.
  static let block = 1024
  private static let firstEntries = 24
  /// Storage larger than this is not kept for the next section.
  private static let keptBytes = 8 * 1024

  /// Makes the storage ready for another section; what was handed out stays as it is.
  mutating func reset() {
    filled = 0
    if !isKnownUniquelyReferenced(&token) || bytes.count > Self.keptBytes { release() }
  }

  /// Lets go of the storage.
  mutating func release() {
    bytes = []
    entries = []
    token = StorageToken()
    filled = 0
  }

  /// Copies at most `limit` bytes of `input` from `offset` on, at most one block. Returns how many.
  mutating func fill(_ input: Span<UInt8>, _ offset: Int, limit: Int) -> Int {
    let amount = min(input.count - offset, Self.block, limit)
    guard amount > 0 else { return 0 }
    if filled + amount + ByteScan.padding > bytes.count { grow(filled + amount + ByteScan.padding) }
    let start = filled
    var target = bytes.mutableSpan
    let source = input.extracting(offset..<offset + amount)
    for index in 0..<amount { target[start &+ index] = source[index] }
    target[start + amount] = 0
    filled += amount
    return amount
  }

  private mutating func grow(_ needed: Int) {
    let size = max(needed, bytes.count * 2, Self.block + ByteScan.padding)
    bytes.append(contentsOf: repeatElement(0, count: size - bytes.count))
    if entries.isEmpty { growEntries() }
  }

  mutating func growEntries() {
    let more = max(entries.count, Self.firstEntries)
    entries.append(contentsOf: repeatElement(FieldEntry(), count: more))
  }

  /// Scans what was filled in.
  @inline(__always)
  mutating func scan(_ scanner: inout FieldScanner) throws(WireError) -> FieldScanner.Outcome {
    while true {
      let outcome = try Self.scan(&scanner, &bytes, filled, &entries)
      switch outcome {
      case .needMore, .ended: return outcome
      case .growEntries: growEntries()
      case .fold: fold(&scanner)
      }
    }
  }

  @inline(__always)
  private static func scan(
    _ scanner: inout FieldScanner, _ bytes: inout [UInt8], _ filled: Int, _ entries: inout [FieldEntry]
  ) throws(WireError) -> FieldScanner.Outcome {
    var index = entries.mutableSpan
    return try scanner.scan(bytes.span, filled: filled, entries: &index)
  }

  /// Writes spaces over the line end before a folded line, as RFC 9112 section 5.2 says.
  private mutating func fold(_ scanner: inout FieldScanner) {
    var end = scanner.position - 1
    bytes[end] = .space
    if end > 0, bytes[end - 1] == .carriageReturn {
      end -= 1
      bytes[end] = .space
    }
    scanner.unfold(entries.span, lineEnd: end)
  }

  /// Writes the header of the index; `line` is nil for trailers.
  @inline(__always)
  mutating func seal(_ scanner: FieldScanner, _ line: StatusLineScanner? = nil) {
    IndexHeader.write(
      &entries, count: scanner.count, known: scanner.known, status: line?.status ?? 0, minor: line?.minor ?? 0,
      reason: line.map { $0.reasonStart..<$0.reasonEnd } ?? 0..<0)
  }

  /// What was scanned and sealed.
  var section: FieldSection { FieldSection(bytes: bytes, entries: entries, token: token) }
}
