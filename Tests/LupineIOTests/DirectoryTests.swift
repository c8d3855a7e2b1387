import CLupineLinux
import Dispatch
import LupineBase
import Synchronization
import Testing

@testable import LupineIO

/// Files that are named by their directory, in a world where others have hands too.
@Suite struct DirectoryTests {
  /// A directory of its own, and ours in it; removed by the test's end.
  private func withDirectory(_ body: (_ parent: String, _ directory: Directory) throws -> Void) throws {
    let parent = temporaryPath()
    try SystemCalls.makeDirectory(parent)
    defer { unsafe rmdir(parent) }
    let directory = try Directory.openPrivate(in: parent)
    defer { unsafe rmdir(directory.path) }
    try body(parent, directory)
  }

  @Test func madeOnceAndForItsOwnerAlone() throws {
    try withDirectory { (parent, directory) throws in
      #expect(directory.path == parent + "/lupine-\(geteuid())")
      #expect(Directory.privatePath(in: parent) == directory.path)
      var status = stat()
      #expect(unsafe stat(directory.path, &status) == 0 && status.st_mode & 0o777 == 0o700)
      #expect(try Directory.openPrivate(in: parent + "/").path == directory.path)
      unsafe chmod(directory.path, 0o750)
      #expect(throws: IOError.untrusted) { try Directory.openPrivate(in: parent) }
    }
    #expect(throws: IOError.notFound(code: ENOENT)) { try Directory.openPrivate(in: "/no-such-directory") }
    #expect(throws: IOError.badPath) { try Directory.openPrivate(in: "/tmp/\u{0}") }
  }

  @Test func aLinkInItsPlaceIsRefused() throws {
    let parent = temporaryPath()
    try SystemCalls.makeDirectory(parent)
    defer { unsafe rmdir(parent) }
    let path = Directory.privatePath(in: parent)
    for target in ["/tmp", "/no-such-directory", "/etc/passwd"] {
      unsafe symlink(target, path)
      #expect(throws: IOError.untrusted) { try Directory.openPrivate(in: parent) }
      unsafe unlink(path)
    }
  }

  @Test func filesAreMadeReopenedAndLocked() throws {
    try withDirectory { (_, directory) throws in
      let file = try directory.create("a")
      defer { try? directory.remove("a") }
      #expect(throws: IOError.alreadyExists) { try directory.create("a") }
      #expect(throws: IOError.inUse) { try directory.reopen("a") }
      file.unlock()
      try file.write([1, 2, 3], at: 0)
      let again = try directory.reopen("a")
      #expect(try again.read(at: 0, count: 9) == [1, 2, 3])
      again.unlock()
      unsafe link(directory.path + "/a", directory.path + "/b")
      #expect(throws: IOError.untrusted) { try directory.reopen("a") }
      try directory.remove("b")
      unsafe symlink(directory.path + "/a", directory.path + "/c")
      #expect(throws: IOError.symbolicLink) { try directory.reopen("c") }
      #expect(throws: IOError.alreadyExists) { try directory.create("c") }
      try directory.remove("c")
      unsafe mkfifo(directory.path + "/d", 0o600)
      #expect(throws: IOError.untrusted) { try directory.reopen("d") }
      try directory.remove("d")
      #expect(throws: IOError.notFound(code: ENOENT)) { try directory.reopen("e") }
    }
  }

  private final class Flag: Sendable {
    let value = Atomic(false)
    let moved = Atomic(0)
  }

  /// Who opens a file just before another one moves it to where it was to go must not take the complete file for his.
  @Test func aFileThatIsMovedMeanwhileIsNotReopened() throws {
    try withDirectory { (parent, directory) throws in
      let target = parent + "/target"
      defer { unsafe unlink(target) }
      let isOver = Flag()
      let mover = try Directory.openPrivate(in: parent)
      DispatchQueue.global().async {
        for _ in 0..<20_000 {
          guard let file = try? mover.create("a") else { continue }
          if (try? mover.rename("a", to: target, overwriting: true)) != nil {
            _ = isOver.moved.wrappingAdd(1, ordering: .relaxed)
          }
          withExtendedLifetime(file) {}
        }
        isOver.value.store(true, ordering: .releasing)
      }
      var astray = 0
      while !isOver.value.load(ordering: .acquiring) {
        guard let file = try? directory.reopen("a") else { continue }
        let ours = try SystemCalls.ownership(file.descriptor)
        guard let named = try? SystemCalls.open("a", in: directory.descriptor, O_RDONLY),
          try SystemCalls.ownership(named).isSameFile(as: ours)
        else {
          astray += 1
          continue
        }
        try directory.remove("a")
        withExtendedLifetime(file) {}
      }
      #expect(astray == 0)
      // Without a move there was nothing to mistake.
      let moved = isOver.moved.load(ordering: .relaxed)
      #expect(moved > 0)
    }
  }

  @Test func renamesWithAndWithoutOverwriting() throws {
    try withDirectory { (parent, directory) throws in
      let target = parent + "/target"
      defer { unsafe unlink(target) }
      try directory.create("a").write([1], at: 0)
      try directory.rename("a", to: target, overwriting: false)
      try directory.create("b").write([2], at: 0)
      #expect(throws: IOError.alreadyExists) { try directory.rename("b", to: target, overwriting: false) }
      #expect(try File.open(target).read(at: 0, count: 9) == [1])
      try directory.rename("b", to: target, overwriting: true)
      #expect(try File.open(target).read(at: 0, count: 9) == [2])
      #expect(throws: IOError.notFound(code: ENOENT)) { try directory.rename("b", to: target, overwriting: true) }
    }
  }

  /// File systems differ in what they know; whichever way it is, nothing that has the path loses it, and nothing is left behind.
  @Test(arguments: SystemCalls.WayToNewPath.allCases)
  func givesAPathThatNothingHas(_ way: SystemCalls.WayToNewPath) throws {
    try withDirectory { (parent, directory) throws in
      let target = parent + "/target"
      defer { unsafe unlink(target) }
      try directory.create("a").write([1], at: 0)
      try SystemCalls.rename("a", in: directory.descriptor, to: target, by: way)
      #expect(try File.open(target).read(at: 0, count: 9) == [1])
      #expect(throws: IOError.notFound(code: ENOENT)) { try directory.reopen("a") }
      try directory.create("b").write([2], at: 0)
      #expect(throws: IOError.alreadyExists) {
        try SystemCalls.rename("b", in: directory.descriptor, to: target, by: way)
      }
      #expect(try File.open(target).read(at: 0, count: 9) == [1])
      try directory.remove("b")
      // A link that leads nowhere has the path, too.
      let link = parent + "/link"
      unsafe symlink(parent + "/nowhere", link)
      defer { unsafe unlink(link) }
      try directory.create("c").write([3], at: 0)
      #expect(throws: IOError.alreadyExists) {
        try SystemCalls.rename("c", in: directory.descriptor, to: link, by: way)
      }
      try directory.remove("c")
      // What is not there takes no path.
      let other = parent + "/other"
      #expect(throws: IOError.notFound(code: ENOENT)) {
        try SystemCalls.rename("d", in: directory.descriptor, to: other, by: way)
      }
      #expect(throws: IOError.notFound(code: ENOENT)) { try File.open(other) }
    }
  }

  /// What folders that are shared with a virtual machine's host say (EINVAL to a rename with flags, EPERM to a link) leads on to the next way.
  @Test func goesOnWhereAFileSystemKnowsNoWay() {
    let unknown: [(SystemCalls.WayToNewPath, Int32, Bool)] = [
      (.rename, EINVAL, true), (.rename, ENOSYS, true), (.rename, EEXIST, false), (.rename, EPERM, true),
      (.rename, EXDEV, false), (.rename, ENOSPC, false), (.link, EPERM, true), (.link, EOPNOTSUPP, true),
      (.link, ENOSYS, true), (.link, EINVAL, true), (.link, EMLINK, true), (.link, EEXIST, false),
      (.link, EACCES, false), (.link, ENOENT, false), (.reservation, EPERM, false), (.reservation, EINVAL, false),
    ]
    for (way, code, isUnknown) in unknown {
      #expect(way.isUnknown(IOError(.rename, code: code)) == isUnknown, "\(way), errno \(code)")
    }
    #expect(SystemCalls.WayToNewPath.allCases == [.rename, .link, .reservation])
  }

  /// Whether this system and this file system can tell what needs no waiting.
  private func canReadAtOnce(_ directory: Directory, _ name: String) -> Bool {
    let file = unsafe clupine_open_cached(directory.descriptor.number, name, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return false }
    defer { _ = close(file) }
    var byte: UInt8 = 0
    return unsafe clupine_read_cached(file, &byte, 1) >= 0
  }

  @Test func whatIsInMemoryIsReadAtOnce() throws {
    try withDirectory { (_, directory) throws in
      let path = directory.path
      let bytes = (0..<10_000).map { UInt8(truncatingIfNeeded: $0) }
      try directory.create("a").write(bytes, at: 0)
      defer { try? directory.remove("a") }
      let now = EventLoop.wallClockNanoseconds()
      func look(_ name: String, limit: Int64 = 10_000, at time: Int64) -> Directory.AtOnce {
        directory.readAtOnce(name, limit: limit, now: time)
      }
      switch look("a", at: now) {
      case .bytes(let read, let isUseDue): #expect(read == bytes && !isUseDue)
      case .missing: Issue.record("it is there")
      case .later: #expect(!canReadAtOnce(directory, "a"))
      }
      if case .bytes(_, let isUseDue) = look("a", at: now + 2_000_000_000) { #expect(isUseDue) }
      // Too large, no file, a link: nothing is read.
      unsafe symlink(path + "/a", path + "/link")
      unsafe mkdir(path + "/folder", 0o700)
      defer {
        unsafe unlink(path + "/link")
        unsafe rmdir(path + "/folder")
      }
      for (name, limit) in [("a", Int64(9_999)), ("link", 10_000), ("folder", 10_000), ("", 10_000)] {
        if case .later = look(name, limit: limit, at: now) {} else { Issue.record("\(name): read") }
      }
      if case .bytes = look("none", at: now) { Issue.record("there is none") }
    }
  }

  /// Times that are no nanoseconds in 64 bits, as of a machine whose clock was wrong.
  @Test(arguments: [10_000_000_000, -10_000_000_000]) func timesFarAway(_ seconds: Int) throws {
    try withDirectory { (_, directory) throws in
      try directory.create("a").write([1], at: 0)
      defer { try? directory.remove("a") }
      var times = [timespec(tv_sec: seconds, tv_nsec: 0), timespec(tv_sec: seconds, tv_nsec: 0)]
      #expect(unsafe utimensat(directory.descriptor.number, "a", &times, 0) == 0)
      let modified = try #require(try directory.attributes(of: "a")).modified
      let now = EventLoop.wallClockNanoseconds()
      let (age, isTooLong) = now.subtractingReportingOverflow(modified)
      #expect(!isTooLong && (age < 0) == (seconds > 0))
      #expect(try directory.read("a", limit: 10, now: now) == [1])
    }
  }

  @Test func aUseIsNoted() throws {
    try withDirectory { (_, directory) throws in
      try directory.create("a").write([1], at: 0)
      defer { try? directory.remove("a") }
      var times = [timespec(tv_sec: 1_000_000, tv_nsec: 0), timespec(tv_sec: 1_000_000, tv_nsec: 0)]
      #expect(unsafe utimensat(directory.descriptor.number, "a", &times, 0) == 0)
      let old = try directory.attributes(of: "a")
      #expect(old?.modified == 1_000_000_000_000_000)
      let before = EventLoop.wallClockNanoseconds()
      directory.noteUse("a")
      directory.noteUse("none")
      // The file system's clock may lag by a tick.
      let new = try directory.attributes(of: "a")
      #expect(new.map { $0.modified > before - 1_000_000_000 } == true)
    }
  }
}
