"""The members of a simulated group: their statuses, what each may do, and the ChatMember objects. Pure."""

from dataclasses import dataclass
from typing import Literal

from bot.sim.telegram.params import Json

MemberStatus = Literal["creator", "administrator", "member", "restricted", "left", "kicked"]

_ADMIN_RIGHTS = (
    "can_manage_chat", "can_delete_messages", "can_manage_video_chats", "can_restrict_members",
    "can_change_info", "can_invite_users", "can_post_stories", "can_edit_stories", "can_delete_stories",
    "can_pin_messages", "can_manage_topics",
)  # fmt: skip
_SEND_RIGHTS = (
    "can_send_messages", "can_send_audios", "can_send_documents", "can_send_photos", "can_send_videos",
    "can_send_video_notes", "can_send_voice_notes", "can_send_polls", "can_send_other_messages",
    "can_add_web_page_previews", "can_react_to_messages",
)  # fmt: skip
_OTHER_RIGHTS = (
    "can_change_info",
    "can_invite_users",
    "can_pin_messages",
    "can_manage_topics",
    "can_edit_tag",
)


@dataclass(frozen=True, slots=True)
class Member:
    """What somebody is in a group.

    `can_send` False is someone restricted who is muted; `is_anonymous` an administrator who writes as the
    group.
    """

    user: Json
    status: MemberStatus = "member"
    can_send: bool = True
    is_anonymous: bool = False

    @property
    def is_present(self) -> bool:
        return self.status not in ("left", "kicked")

    @property
    def is_admin(self) -> bool:
        return self.status in ("creator", "administrator")

    def to_raw(self) -> Json:
        """The ChatMember object."""
        raw: Json = {"user": self.user, "status": self.status}
        match self.status:
            case "creator":
                return raw | {"is_anonymous": self.is_anonymous}
            case "administrator":
                flags = {"can_be_edited": False, "is_anonymous": self.is_anonymous}
                return raw | flags | dict.fromkeys(_ADMIN_RIGHTS, True) | {"can_promote_members": False}
            case "restricted":
                rights = dict.fromkeys(_SEND_RIGHTS, self.can_send) | dict.fromkeys(_OTHER_RIGHTS, False)
                return raw | rights | {"is_member": True, "until_date": 0}
            case "kicked":
                return raw | {"until_date": 0}
            case _:
                return raw
