import CSystemCallFilter
import Glibc
import LupineTesting
import Testing

@testable import LupineTLS

/// Ends the process of a test for what is not so.
private func expect(_ condition: Bool) {
  if !condition { exit(EXIT_FAILURE) }
}

private func failure(_ policy: TLSPolicy) -> TLSError? {
  do throws(TLSError) {
    _ = try TLSContext(client: policy)
    return nil
  } catch {
    return error
  }
}

/// A store of roots is kept: one that was read while the process lacked descriptors must not go without what is there.
@Suite struct RootShortageTests {
  @Test func theSystemsRootsAreTriedAgain() async {
    await #expect(processExitsWith: .success) {
      var limit = rlimit()
      expect(unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
      var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
      expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none) == 0)
      guard case .rootsUnreadable(let path, "Too many open files") = failure(TLSPolicy()) else { exit(EXIT_FAILURE) }
      expect((RootStore.systemFiles + RootStore.systemDirectories).contains { path.hasPrefix($0) })
      expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
      expect(failure(TLSPolicy()) == nil)
    }
  }

  @Test func aDirectoryOfWhichNotAllCanBeOpenedIsNone() async {
    await #expect(processExitsWith: .success) {
      let files = try Mint.shared.root.writeRoot()
      var policy = TLSPolicy()
      policy.roots = .directory(files.directory)
      expect(failure(policy) == nil)
      if filter_opening_of_files(EMFILE) == 0 {
        guard case .rootsUnreadable(let path, "Too many open files") = failure(policy) else { exit(EXIT_FAILURE) }
        expect(path.hasPrefix(files.directory + "/"))
      }
      files.remove()
    }
  }
}
