/// Small reads that a loop makes for several sockets, one after the other, before it tells whoever reads the first of them: see `StagedWork` for why.
///
/// Invariant: what a socket gave is given to a read of that socket, within the telling that it was made for, or to nobody.
@safe
final class ReadsAhead {
  private struct Room {
    var number: Int32 = -1
    var count = 0
  }

  /// What is read ahead at most: enough for a small response. Whoever finds that it was full reads on.
  static let roomSize = 4096
  /// Rooms do not begin at the same place of a page: a processor would keep their beginnings in the same few places.
  private static let stride = roomSize + 64

  private let memory: UnsafeMutableRawBufferPointer
  private let rooms: UnsafeMutableBufferPointer<Room>
  /// The room of whoever is being told, while it has not been read; -1: none.
  private var waiting = -1
  /// The room that was read last, while it is shown; -1: none.
  private var shown = -1

  init() {
    unsafe memory = .allocate(byteCount: StageSize.works * Self.stride, alignment: 64)
    unsafe rooms = .allocate(capacity: StageSize.works)
    unsafe rooms.initialize(repeating: Room())
  }

  deinit {
    unsafe memory.deallocate()
    unsafe rooms.deallocate()
  }

  // MARK: Before anybody is told

  /// Nothing is read.
  @inline(__always)
  func empty(_ room: Int) {
    unsafe rooms[room] = Room()
  }

  /// Reads from a socket of which bytes were reported, and nothing else: they come before an end or an error that has come meanwhile, and which the next read gives.
  @inline(__always)
  func read(_ number: Int32, into room: Int) {
    let target = unsafe bytes(of: room, Self.roomSize)
    unsafe rooms[room] = unsafe Room(number: number, count: SystemCalls.receiveIfAny(number, target))
  }

  // MARK: While somebody is told

  /// Begins to tell whom the room is for.
  @inline(__always)
  func tell(_ room: Int) {
    waiting = unsafe rooms[room].count > 0 ? room : -1
  }

  /// Whether what was read for him has not been asked for.
  var isWaiting: Bool { waiting >= 0 }

  /// Gives what was read from a socket: how many bytes, which `shownBytes` are.
  @inline(__always)
  func take(_ number: Int32) -> Int? {
    guard waiting >= 0, unsafe rooms[waiting].number == number else {
      shown = -1
      return nil
    }
    shown = waiting
    waiting = -1
    return unsafe rooms[shown].count
  }

  /// Nobody is told any more.
  func endTelling() {
    waiting = -1
  }

  /// So many bytes of what was taken, until something else is read; nil if something else has been.
  @inline(__always)
  func shownBytes(_ count: Int) -> UnsafeRawBufferPointer? {
    shown < 0 ? nil : unsafe UnsafeRawBufferPointer(bytes(of: shown, count))
  }

  @inline(__always)
  private func bytes(of room: Int, _ count: Int) -> UnsafeMutableRawBufferPointer {
    let start = room * Self.stride
    return unsafe UnsafeMutableRawBufferPointer(rebasing: memory[start..<start + count])
  }
}
