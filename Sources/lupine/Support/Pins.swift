internal import Lupine

/// Public keys that the command line or a batch pins.
enum Pins {
  /// Their digests, 32 bytes each.
  static func read(_ texts: [String]) throws(CommandFailure) -> Set<[UInt8]> {
    var pins: Set<[UInt8]> = []
    for text in texts {
      do throws(SecurityPolicyError) {
        pins.insert(try PublicKeyPin(text).sha256)
      } catch {
        throw .misuse(error.message)
      }
    }
    return pins
  }
}
