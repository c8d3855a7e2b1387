import LupineBase

/// The storage that a section is read into and then shared with: flat bytes with padding behind them, then the index, in one array.
///
/// Whoever holds a section holds the array too, and to write then makes a copy of it: it is small, or not kept.
///
/// Invariant: once anything was filled in, `filled + ByteScan.padding <= indexStart <= storage.count`, and `storage[filled]` is the
/// sentinel, NUL.
struct HeadBuffer {
  private(set) var storage: [UInt8] = []
  /// Where the index starts.
  private(set) var indexStart = 0
  /// Bytes of input in `storage`.
  var filled = 0

  /// How much is copied in at a time: the end of the section is not known before it is scanned.
  static let block = 1024
  private static let firstEntries = 26
  /// Storage larger than this is not kept for the next section.
  private static let keptBytes = 8 * 1024

  /// Makes the storage ready for another section; what was handed out stays as it is.
  mutating func reset() {
    filled = 0
    if storage.count > Self.keptBytes { release() }
  }

  /// Lets go of the storage.
  mutating func release() {
    storage = []
    indexStart = 0
    filled = 0
  }

  /// Copies at most `limit` bytes of `input` from `offset` on, at most one block. Returns how many.
  mutating func fill(_ input: Span<UInt8>, _ offset: Int, limit: Int) -> Int {
    let amount = min(input.count - offset, Self.block, limit)
    guard amount > 0 else { return 0 }
    if filled + amount + ByteScan.padding > indexStart { grow(filled + amount + ByteScan.padding) }
    let start = filled
    var target = storage.mutableSpan
    target.copy(input.extracting(offset..<offset + amount), at: start)
    target[start + amount] = 0
    filled += amount
    return amount
  }

  private mutating func grow(_ needed: Int) {
    let size = max(needed, indexStart * 2, Self.block + ByteScan.padding)
    if storage.isEmpty {
      storage = [UInt8](repeating: 0, count: size + Self.firstEntries * FieldEntry.size)
    } else {
      storage.insert(contentsOf: [UInt8](repeating: 0, count: size - indexStart), at: indexStart)
    }
    indexStart = size
  }

  private mutating func growIndex() {
    storage.append(contentsOf: [UInt8](repeating: 0, count: storage.count - indexStart))
  }

  /// Scans what was filled in; true once the section has ended, and its index is complete.
  @inline(__always)
  mutating func scan(_ scanner: inout FieldScanner, _ line: SectionLabel = SectionLabel()) throws(WireError) -> Bool {
    while true {
      switch try Self.scan(&scanner, line, &storage, filled, indexStart) {
      case .needMore: return false
      case .ended: return true
      case .growIndex: growIndex()
      case .fold: fold(&scanner)
      }
    }
  }

  @inline(__always)
  private static func scan(
    _ scanner: inout FieldScanner, _ line: SectionLabel, _ storage: inout [UInt8], _ filled: Int,
    _ indexStart: Int
  ) throws(WireError) -> FieldScanner.Outcome {
    var bytes = storage.mutableSpan
    let outcome = try scanner.scan(&bytes, filled: filled, indexStart: indexStart)
    if outcome == .ended {
      IndexHeader.write(&bytes, at: indexStart, count: scanner.count, line)
    }
    return outcome
  }

  /// Writes spaces over the line end before a folded line, as RFC 9112 section 5.2 says.
  private mutating func fold(_ scanner: inout FieldScanner) {
    var end = scanner.position - 1
    storage[end] = .space
    if end > 0, storage[end - 1] == .carriageReturn {
      end -= 1
      storage[end] = .space
    }
    scanner.unfold(storage.span, indexStart: indexStart)
  }

  /// What was scanned, once it has ended.
  var section: FieldSection { FieldSection(storage: storage, indexStart: indexStart) }
}
